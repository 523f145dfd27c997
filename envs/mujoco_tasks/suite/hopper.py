"""Control Suite task `hopper-hop`: reward for standing and hopping forwards."""

from __future__ import annotations

import numpy as np

from plangym_ext.envs.mujoco_tasks.suite import suite_task
from plangym_ext.envs.mujoco_tasks.suite.suite_task import RandomJoints
from plangym_ext.native.mujoco.task import Rows

_STAND_HEIGHT, _MOST_HEIGHT = 0.6, 2
_HOP_SPEED = 2
_TORSO, _FOOT = 1, 5  # bodies; 0 is the world


class HopperHop(RandomJoints):
    """`hopper-hop`: the torso 0.6 above the foot, and speed, to 1 at 2 m/s.

    Source: dm_control/suite/hopper.py.
    """

    file = "hopper.xml"
    frame_skip = 4
    reads = ("qpos", "qvel", "sensordata", "xipos")

    def observation(self, after: Rows) -> np.ndarray:
        # The first three are the velocity of the centre of mass, the others touch sensors.
        touch = np.log1p(after.sensordata[:, 3:])
        return np.concatenate((after.qpos[:, 1:], after.qvel, touch), axis=1)

    def reward(
        self, before: Rows, after: Rows, actions: np.ndarray
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        # Of the centres of mass (`xipos`), as in the suite, not of the bodies' frames.
        height = after.xipos[:, _TORSO, 2] - after.xipos[:, _FOOT, 2]
        speed = after.sensordata[:, 0]
        standing = suite_task.within(height, _STAND_HEIGHT, _MOST_HEIGHT)
        hopping = suite_task.linear(speed, _HOP_SPEED, np.inf, _HOP_SPEED / 2, 0.5)
        return standing * hopping, {"height": height, "speed": speed}

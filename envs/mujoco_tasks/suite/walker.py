"""Control Suite task `walker-run`: reward for standing upright and speed."""

from __future__ import annotations

import numpy as np

from plangym_ext.envs.mujoco_tasks.suite import suite_task
from plangym_ext.envs.mujoco_tasks.suite.suite_task import RandomJoints
from plangym_ext.native.mujoco.task import Rows

_STAND_HEIGHT = 1.2
_RUN_SPEED = 8
_TORSO = 1  # body; 0 is the world
_XX, _XZ, _ZZ = 0, 2, 8  # of a rotation matrix, row by row


class WalkerRun(RandomJoints):
    """`walker-run`: a product of height and upright torso with speed, to 1 at 8 m/s.

    Source: dm_control/suite/walker.py.
    """

    file = "walker.xml"
    frame_skip = 10
    reads = ("qvel", "sensordata", "xmat", "xpos")

    def observation(self, after: Rows) -> np.ndarray:
        turned = after.xmat[:, 1:, [_XX, _XZ]].reshape(len(after.xmat), -1)
        height = after.xpos[:, _TORSO, 2:]
        return np.concatenate((turned, height, after.qvel), axis=1)

    def reward(
        self, before: Rows, after: Rows, actions: np.ndarray
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        height, speed = after.xpos[:, _TORSO, 2], after.sensordata[:, 0]
        standing = suite_task.gaussian(height, _STAND_HEIGHT, np.inf, _STAND_HEIGHT / 2)
        upright = (1 + after.xmat[:, _TORSO, _ZZ]) / 2
        stands = (3 * standing + upright) / 4
        moving = suite_task.linear(speed, _RUN_SPEED, np.inf, _RUN_SPEED / 2, 0.5)
        return stands * (5 * moving + 1) / 6, {"height": height, "speed": speed}

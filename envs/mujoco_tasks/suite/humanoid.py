"""Control Suite task `humanoid-run`: reward for upright posture, speed and small controls."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

from plangym_ext.envs.mujoco_tasks.suite import suite_task
from plangym_ext.envs.mujoco_tasks.suite.suite_task import RandomJoints, body
from plangym_ext.envs.mujoco_tasks.walkers import norms
from plangym_ext.native.mujoco.task import Rows

_STAND_HEIGHT = 1.4
_RUN_SPEED = 10
_TORSO, _HEAD = 1, 2  # bodies; 0 is the world
_Z_ROW, _ZZ = slice(6, 9), 8  # of a rotation matrix, row by row


class HumanoidRun(RandomJoints):
    """`humanoid-run`: a product of stand, control and speed, to 1 at 10 m/s.

    Source: dm_control/suite/humanoid.py.
    """

    file = "humanoid.xml"
    frame_skip = 5
    reads = ("ctrl", "qpos", "qvel", "sensordata", "xmat", "xpos")

    def __init__(self) -> None:
        names = (f"{side}_{limb}" for side in ("left", "right") for limb in ("hand", "foot"))
        self._limbs = body(self._compiled, *names)

    def draw(self, rng: np.random.Generator) -> None:
        """Leave the start to `begin`: whether it will do takes a simulation to say."""

    def begin(self, model: Any, data: Any, rng: np.random.Generator) -> None:
        """Draw joints until nothing touches anything."""
        places, low, high = self._ranges
        mujoco.mj_forward(model, data)
        touching = True
        while touching:
            # As in the suite: numbers from [0, 1) reach one orthant of the directions alone.
            turned = rng.random(4)
            data.qpos[3:7] = turned / np.linalg.norm(turned)
            data.qpos[places] = rng.uniform(low, high)
            mujoco.mj_forward(model, data)
            touching = data.ncon > 0
        mujoco.mj_forward(model, data)

    def observation(self, after: Rows) -> np.ndarray:
        count = len(after.xpos)
        torso = np.ascontiguousarray(after.xmat[:, _TORSO]).reshape(count, 1, 3, 3)
        reach = after.xpos[:, self._limbs] - after.xpos[:, _TORSO, None]
        # One product of a vector with a matrix for each limb, as dm_control has it.
        limbs = np.matmul(reach[:, :, None], torso).reshape(count, -1)
        parts = (
            after.qpos[:, 7:],
            after.xpos[:, _HEAD, 2:],
            limbs,
            after.xmat[:, _TORSO, _Z_ROW],
            after.sensordata[:, :3],
            after.qvel,
        )
        return np.concatenate(parts, axis=1)

    def reward(
        self, before: Rows, after: Rows, actions: np.ndarray
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        height = after.xpos[:, _HEAD, 2]
        standing = suite_task.gaussian(height, _STAND_HEIGHT, np.inf, _STAND_HEIGHT / 4)
        upright = suite_task.linear(after.xmat[:, _TORSO, _ZZ], 0.9, np.inf, 1.9)
        small_control = (4 + suite_task.quadratic(after.ctrl, 1).mean(axis=1)) / 5
        # The first two numbers are the centre of mass's velocity along the ground.
        speed = norms(np.ascontiguousarray(after.sensordata[:, :2]))
        moving = (5 * suite_task.linear(speed, _RUN_SPEED, np.inf, _RUN_SPEED) + 1) / 6
        return small_control * (standing * upright) * moving, {"height": height, "speed": speed}

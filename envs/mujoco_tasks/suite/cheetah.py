"""Control Suite task `cheetah-run`: reward for the running speed."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

from plangym_ext.envs.mujoco_tasks.suite import suite_task
from plangym_ext.envs.mujoco_tasks.suite.suite_task import SuiteTask
from plangym_ext.native.mujoco.task import Rows

_RUN_SPEED = 10
_SETTLING_STEPS = 200


class CheetahRun(SuiteTask):
    """`cheetah-run`: the reward grows in a line with the speed, to 1 at 10 m/s.

    Source: dm_control/suite/cheetah.py.
    """

    file = "cheetah.xml"
    reads = ("qpos", "qvel", "sensordata")

    def draw(self, rng: np.random.Generator) -> None:
        """Leave the start to `begin`: it takes a simulation."""

    def begin(self, model: Any, data: Any, rng: np.random.Generator) -> None:
        """Draw the joints with a range, and let the cheetah fall to the ground and rest."""
        mujoco.mj_forward(model, data)
        limited = model.jnt_limited == 1
        low, high = model.jnt_range[limited].T
        data.qpos[limited] = rng.uniform(low, high)
        # As dm_control does it: the first of these steps has the forces of where it was before.
        mujoco.mj_step2(model, data)
        mujoco.mj_step(model, data, nstep=_SETTLING_STEPS - 1)
        # The fall is no part of the episode.
        data.time = 0
        mujoco.mj_forward(model, data)

    def observation(self, after: Rows) -> np.ndarray:
        return np.concatenate((after.qpos[:, 1:], after.qvel), axis=1)

    def reward(
        self, before: Rows, after: Rows, actions: np.ndarray
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        speed = after.sensordata[:, 0]
        return suite_task.linear(speed, _RUN_SPEED, np.inf, _RUN_SPEED), {"speed": speed}

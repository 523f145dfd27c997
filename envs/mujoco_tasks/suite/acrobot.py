"""Control Suite task `acrobot-swingup`: a double pendulum to be swung upright."""

from __future__ import annotations

import numpy as np

from plangym_ext.envs.mujoco_tasks.model_task import Joints
from plangym_ext.envs.mujoco_tasks.suite import suite_task
from plangym_ext.envs.mujoco_tasks.suite.suite_task import SuiteTask
from plangym_ext.envs.mujoco_tasks.walkers import norms
from plangym_ext.native.mujoco.task import Rows

_TARGET, _TIP = 0, 1  # sites
_TARGET_RADIUS = 0.2
_ARMS = slice(1, 3)  # bodies; 0 is the world
_XZ, _ZZ = 2, 8  # of a rotation matrix, row by row


class AcrobotSwingup(SuiteTask):
    """`acrobot-swingup`: a bell curve around the tip's highest place.

    Source: dm_control/suite/acrobot.py.
    """

    file = "acrobot.xml"
    reads = ("qvel", "site_xpos", "xmat")

    def draw(self, rng: np.random.Generator) -> Joints:
        return rng.uniform(-np.pi, np.pi, 2), np.zeros(2)

    def observation(self, after: Rows) -> np.ndarray:
        arms = after.xmat[:, _ARMS]
        return np.concatenate((arms[..., _XZ], arms[..., _ZZ], after.qvel), axis=1)

    def reward(
        self, before: Rows, after: Rows, actions: np.ndarray
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        distance = norms(after.site_xpos[:, _TARGET] - after.site_xpos[:, _TIP])
        return suite_task.gaussian(distance, 0, _TARGET_RADIUS, 1), {"distance": distance}

"""Base classes of the Control Suite tasks: model loading, random joints, sensor lookup."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import mujoco
import numpy as np

from plangym_ext.envs.mujoco_tasks.draws import Joints
from plangym_ext.envs.mujoco_tasks.model_task import ModelTask

# No name of a package: it holds none.
_MODELS = Path(__file__).parent / "dm_control-models"


class SuiteTask(ModelTask):
    """A task of the suite: its rewards lie in [0, 1], and nothing ends its episodes.

    dm_control finds what is observed and paid after the last simulation step, by `mj_step1`.

    Attributes:
        file: of the model, in the folder `dm_control-models`.
    """

    file: ClassVar[str]
    derives_after = True

    def load_model(self) -> Any:
        """Return the task's `MjModel`."""
        return self._compiled

    @cached_property
    def _compiled(self) -> Any:
        return mujoco.MjModel.from_xml_path(str(_MODELS / self.file))

    @property
    def _start(self) -> tuple[np.ndarray, int]:
        model = self._compiled
        # A copy: draws write to it, and the model has to keep its own.
        return model.qpos0.copy(), model.nv


class RandomJoints(SuiteTask):
    """A task that begins with joints anywhere: hinges without a range at any angle.

    Source: `randomize_limited_and_rotational_joints` of dm_control/suite/utils/randomizers.py.
    """

    def draw(self, rng: np.random.Generator) -> Joints | None:
        positions, num_velocities = self._start
        places, low, high = self._ranges
        positions[places] = rng.uniform(low, high)
        return positions, np.zeros(num_velocities)

    @cached_property
    def _ranges(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return which positions are drawn, and between what."""
        model = self._compiled
        limited = model.jnt_limited == 1
        chosen = limited | (model.jnt_type == mujoco.mjtJoint.mjJNT_HINGE)
        low = np.where(limited, model.jnt_range[:, 0], -np.pi)[chosen]
        high = np.where(limited, model.jnt_range[:, 1], np.pi)[chosen]
        # One position per joint: a free root has seven, and is neither limited nor a hinge.
        return model.jnt_qposadr[chosen], low, high


def body(model: Any, *names: str) -> list[int]:
    """Return the numbers of bodies."""
    return [model.body(name).id for name in names]


def sensor(model: Any, *names: str) -> list[int]:
    """Return the indices of sensor values in `sensordata`, concatenated."""
    found = [model.sensor(name) for name in names]
    return [k for one in found for k in range(one.adr[0], one.adr[0] + one.dim[0])]

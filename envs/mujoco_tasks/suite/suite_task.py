"""Base classes of the Control Suite tasks: model loading, random joints, sensor lookup."""

from __future__ import annotations

import math
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import mujoco
import numpy as np

from plangym_ext.envs.mujoco_tasks.model_task import Joints, ModelTask

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


# The Control Suite's `tolerance` reward functions -----------------------------
# Source: dm_control/utils/rewards.py (Apache License 2.0). A value of n rows is to the last bit
# what dm_control has for each of them alone, which takes the square of a single number by the C
# library's `pow`.


_AT_MARGIN = 0.1


def gaussian(values: np.ndarray, low: float, high: float, margin: float) -> np.ndarray:
    """Return 1 in [low, high], less by a bell curve outside, 0.1 at distance `margin`.

    Args:
        values: `[n]` float64.
        low: the lower bound.
        high: the upper one; infinite for none.
        margin: more than 0.
    """
    # So that at distance 1 the curve is exp(log(0.1)).
    scale = np.sqrt(-2 * np.log(_AT_MARGIN))
    curve = np.exp(-0.5 * squares(_distance(values, low, high, margin) * scale))
    return np.where(_inside(values, low, high), 1.0, curve)


def linear(
    values: np.ndarray, low: float, high: float, margin: float, at_margin: float = 0.0
) -> np.ndarray:
    """Return 1 in [low, high], less by a line outside, `at_margin` at distance `margin`.

    Args:
        values: `[n, ...]` float64.
        low: the lower bound.
        high: the upper one; infinite for none.
        margin: more than 0.
        at_margin: in [0, 1).
    """
    scaled = _distance(values, low, high, margin) * (1 - at_margin)
    # Inside the bounds the distance has no meaning: the last line takes 1 there.
    curve = np.where(np.abs(scaled) < 1, 1 - scaled, 0.0)
    return np.where(_inside(values, low, high), 1.0, curve)


def quadratic(values: np.ndarray, margin: float) -> np.ndarray:
    """Return 1 at 0, less by a parabola, 0 from distance `margin` on.

    Args:
        values: `[n, ...]` float64, of which dm_control squares a whole array.
        margin: more than 0.
    """
    scaled = _distance(values, 0.0, 0.0, margin)
    curve = np.where(np.abs(scaled) < 1, 1 - scaled**2, 0.0)
    return np.where(_inside(values, 0.0, 0.0), 1.0, curve)


def within(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return 1.0 in [low, high], 0.0 outside."""
    return np.where(_inside(values, low, high), 1.0, 0.0)


def squares(values: np.ndarray) -> np.ndarray:
    """Return `value ** 2` of each of `[n]` as of a single number."""
    return np.array([value**2 for value in values.tolist()], np.float64)


def _inside(values: np.ndarray, low: float, high: float) -> np.ndarray:
    inside: np.ndarray = (low <= values) & (values <= high)
    return inside


def _distance(values: np.ndarray, low: float, high: float, margin: float) -> np.ndarray:
    """Return how many margins the values lie outside; what is inside has no meaning."""
    beyond = values - high if math.isfinite(high) else np.full_like(values, -np.inf)
    found: np.ndarray = np.where(values < low, low - values, beyond) / margin
    return found

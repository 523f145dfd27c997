"""ModelTask: base class for a user's own MuJoCo task, from a model file and row functions."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from plangym_ext.errors import WrongKind
from plangym_ext.native.mujoco.task import MujocoTask

Joints = tuple[np.ndarray, np.ndarray]


class NoisyStart(MujocoTask):
    """Abstract task that begins with noise on the joints.

    Args:
        env: gymnasium's, with `_reset_noise_scale`.
    """

    #: Whether velocities have normal noise, rather than uniform as positions.
    _normal_start = False

    def __init__(self, env: Any) -> None:
        self._positions, self._velocities = env.init_qpos.copy(), env.init_qvel.copy()
        self._scale = env._reset_noise_scale

    def draw(self, rng: np.random.Generator) -> Joints:
        low, high = -self._scale, self._scale
        # Positions before velocities: another order would give each the other's numbers.
        positions = self._positions + rng.uniform(low, high, self._positions.size)
        size = self._velocities.size
        if self._normal_start:
            return positions, self._velocities + self._scale * rng.standard_normal(size)
        return positions, self._velocities + rng.uniform(low, high, size)


class ModelTask(MujocoTask):
    """A `MujocoTask` with its own model, which needs no gymnasium env.

    Attributes:
        model: MJCF as text, the path of an MJCF file, or an `MjModel`.
        frame_skip: simulation steps in an env step.
        reset_noise: a reset moves each joint position and velocity by up to this much.
        first_task: of a task that has tasks to adapt to, the numbers of one: it holds until another
            is set. They are the simulation's `userdata`, which states hold.
    """

    model: str | Path | Any
    frame_skip: int = 1
    reset_noise: float = 0.0
    first_task: tuple[float, ...] = ()

    def load_model(self) -> Any:
        """Return a fresh `MjModel`."""
        model = self.model
        # XML begins with a bracket; a path does not.
        if isinstance(model, str) and model.lstrip().startswith("<"):
            return mujoco.MjModel.from_xml_string(model)
        if isinstance(model, str | Path):
            return mujoco.MjModel.from_xml_path(str(model))
        return model

    def sample_tasks(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return n tasks `[n, d]`; see `plangym_ext.envs.HasTasks`.

        Raises:
            WrongKind: there is but one.
        """
        raise WrongKind(f"{type(self).__name__}: it has one task; override sample_tasks.")

    def draw(self, rng: np.random.Generator) -> Joints | None:
        """Return the model's initial joints plus noise; override for another start."""
        positions, num_velocities = self._start
        noise = self.reset_noise
        return (
            positions + rng.uniform(-noise, noise, positions.size),
            rng.uniform(-noise, noise, num_velocities),
        )

    def begin(self, model: Any, data: Any, rng: np.random.Generator) -> None:
        """Set a simulation that was just reset to the start of an episode.

        Override it for a start that takes more than joints to say; `draw` then returns None,
        and the env itself resets the rows of a batch.

        Args:
            model: the `MjModel`.
            data: an `MjData` of it; written to, its derived fields too.
            rng: the env's generator.
        """
        joints = self.draw(rng)
        assert joints is not None, f"{type(self).__name__}: draw gave None; override begin"
        data.qpos[:], data.qvel[:] = joints
        mujoco.mj_forward(model, data)

    # Every episode draws, and to compile a model takes far longer than that.
    @cached_property
    def _start(self) -> tuple[np.ndarray, int]:
        model = self.load_model()
        return model.qpos0.copy(), model.nv

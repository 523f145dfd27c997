"""MujocoTask: interface of observation, reward and termination functions over many rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import SimpleNamespace
from typing import Any

import numpy as np


class Rows(SimpleNamespace):
    """Fields of n simulations at one moment: `rows.qpos` is `[n, nq]` float64, and so on.

    The names and shapes are those of MuJoCo's `mjData`. The arrays are written to by the
    next call: what is kept must be copied.
    """


class MujocoTask(ABC):
    """Observation, reward and termination of a MuJoCo task, as functions over rows.

    Row i of a function's result must depend only on row i of its arguments, to the last bit: sum
    over the last axis of a contiguous array, for instance, not by a matrix product.

    Attributes:
        reads: fields of `mjData` that the functions use of a step's outcome. Those that are
            derived (positions of bodies, forces, ...) are those of its last simulation
            step, as MuJoCo leaves them, unless `derives_after`.
        reads_before: fields that `reward` compares with.
        contact_forces: whether `mj_rnePostConstraint` runs after each step, for `cacc`,
            `cfrc_int` and `cfrc_ext`.
        derives_after: whether `mj_step1` runs after each step: what is derived of positions
            and velocities is then that of the step's outcome.
        kept: positions that a reset draws and the env keeps beside the simulation too, as
            `MujocoPart` has them in its states; None for none.
    """

    reads: tuple[str, ...] = ("qpos", "qvel")
    reads_before: tuple[str, ...] = ()
    contact_forces: bool = False
    derives_after: bool = False
    kept: slice | None = None

    @abstractmethod
    def observation(self, after: Rows) -> np.ndarray:
        """Return `[n, *obs]` observations, in the dtype of the space: fresh, or views of `after`.

        What is a view is copied before the next step.
        """

    @abstractmethod
    def reward(
        self, before: Rows, after: Rows, actions: np.ndarray
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return the rewards of one env step, and its infos.

        Args:
            before: the fields `reads_before`, as they were.
            after: the fields `reads`.
            actions: `[n, nu]` float32.

        Returns:
            `[n]` rewards, and a `[n, ...]` array for each info; fresh, or views of the fields.
        """

    def terminated(self, after: Rows) -> np.ndarray | None:  # noqa: ARG002 - for overrides
        """Return `[n]` bool, fresh: rows whose episode is over; None for a task without endings."""
        return None

    def draw(
        self,
        rng: np.random.Generator,  # noqa: ARG002 - for overrides
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the joint positions `[nq]` and velocities `[nv]` of a fresh episode.

        With them, ended rows are reset on MuJoCo's threads: `mj_resetData`, these, and
        `mj_forward`. None, the default, leaves that to the env, one row after another.

        Args:
            rng: the row's own generator, to be drawn from exactly as the env does.
        """
        return None

    @classmethod
    def model_of(cls, task: bytes) -> Any:  # noqa: ARG003 - for overrides
        """Return the `MjModel` that a row runs on, to be read only; None: the env's own.

        Args:
            task: the row's `userdata`. What is returned depends on it alone, so states hold
                all that a step reads. Sizes are those of the env's model.
        """
        return None

    @property
    def can_end(self) -> bool:
        """Whether `terminated` may hold for a row."""
        return type(self).terminated is not MujocoTask.terminated


def rows_of(data: Any, names: tuple[str, ...]) -> Rows:
    """Return one simulation's fields as rows of one; copies."""
    return Rows(**{name: getattr(data, name)[None].copy() for name in names})

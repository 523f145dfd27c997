"""StepResults: the results of one call for some rows of a vector env."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from plangym_ext.errors import BatchPending, EnvClosed, ResetNeeded, WorkerTimeout

#: Stands in a `Reply` for a final observation that lies in `RowMemory.finals`.
IN_MEMORY = ...


class StepResults(NamedTuple):
    """Results of a step or reset of k rows; row numbers count from 0 to k - 1.

    Attributes:
        rewards: `[k]` float64, fresh.
        terminations, truncations: `[k]` bool, fresh.
        infos: `(row, info)` for each info that is not empty, or `GroupedInfos`, which hold
            the finals too.
        finals: `(row, obs, info)` of rows that ended and were reset in the same step.
        batch: observations of the k rows as one fresh `[k, *obs]` array, if a backend has
            them so; they are in its `ObsBuffer` as well.
    """

    rewards: np.ndarray
    terminations: np.ndarray
    truncations: np.ndarray
    infos: Iterable[tuple[int, dict[str, Any]]]
    finals: Sequence[tuple[int, Any, dict[str, Any]]]
    batch: np.ndarray | None = None


class Reply(NamedTuple):
    """A process's reply for k rows, beside the shared memory.

    Attributes:
        infos, finals: as of `StepResults`; of a step or a reset. `IN_MEMORY` stands for a final
            observation that lies there.
        obs: observations that have no array form, one for each row; else None.
        values: of each row, of any other call.
        moved: whether rows may have changed.
        shown: with states, the observations of all rows of the process at that time, as
            `ObsBuffer.taken` returns them; None if the memory has that, for no call of other rows
            can have followed.
        states: of all rows of the process, None for one that was never reset; empty if they
            turned out not to be capturable; or None if it was not time to capture them.
        checksum: of the results of the process's rows since their states were captured or restored,
            this call included; see `ResultChecksum`. None if the call shows nothing.
        forms: forms of infos that the process which sends it has numbered, from the first on
            that the other one did not know, and the number of that; see `InfoForms`.
        attributes: by row and name, the attributes that a called method has set, to be set again in
            a new process; None: nothing.
    """

    infos: Sequence[tuple[int, dict[str, Any]]] = ()
    finals: Sequence[tuple[int, Any, dict[str, Any]]] = ()
    obs: list[Any] | None = None
    values: Sequence[Any] = ()
    moved: bool = True
    states: list[np.ndarray | None] | None = None
    shown: tuple[np.ndarray, ...] | None = None
    checksum: int | None = None
    forms: tuple[int, tuple[Any, ...]] | None = None
    attributes: dict[tuple[int, str], Any] | None = None


# Vector-env exceptions that derive from the library's and gymnasium's classes -


class VectorResetNeeded(ResetNeeded, gym.error.ResetNeeded):
    """A sub-env has to be reset before it can be stepped."""


class VectorClosed(EnvClosed, gym.error.ClosedEnvironmentError):
    """The vector env was closed."""


class VectorPending(BatchPending, gym.error.AlreadyPendingCallError):
    """Another call was begun and has not been waited for.

    Attributes:
        name: of that call.
    """

    def __init__(self, message: str, name: str) -> None:
        gym.error.AlreadyPendingCallError.__init__(self, message, name)


class VectorTimeout(WorkerTimeout, multiprocessing.TimeoutError):
    """Sub-envs did not answer in time; they were stopped, and the call was rolled back."""

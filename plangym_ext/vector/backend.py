"""VectorBackend: the protocol of the backends that step a vector env's rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from plangym_ext.vector.memory.step_out import StepOut
from plangym_ext.vector.results import StepResults
from plangym_ext.vector.shown import ObsBuffer


@dataclass(frozen=True)
class RowsDescription:
    """Spaces, metadata and backend facts of a vector env's rows.

    Attributes:
        name: of the first row's env.
        observation_spaces, action_spaces: of every row.
        metadata, render_mode: of the first row's env.
    """

    name: str
    observation_spaces: list[spaces.Space[Any]]
    action_spaces: list[spaces.Space[Any]]
    metadata: dict[str, Any]
    render_mode: str | None


class RowStep(NamedTuple):
    """A step of k rows, checked.

    Attributes:
        rows: their numbers; a range for all.
        actions: of each.
        resets: `[k]` bool, which are reset instead.
        same_step: whether a row that ends is reset at once.
        out: what comes of it is written to, or None.
        ahead: whether other steps are begun and not finished, which move none of these rows.
    """

    rows: Sequence[int]
    actions: Sequence[Any] | np.ndarray
    resets: np.ndarray
    same_step: bool
    out: StepOut | None = None
    ahead: bool = False


class VectorBackend(ABC):
    """Rows 0 to n - 1 of a vector env.

    One call is in flight at a time, or several steps without common rows. They are finished, and
    kept, in the order in which they were begun.

    What fails leaves every row where it was before, or else `lost` says so.
    """

    @property
    @abstractmethod
    def obs(self) -> ObsBuffer:
        """Observations of every row."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of the memory that rows write to; not what envs themselves take."""

    @abstractmethod
    def build(self) -> None:
        """Build the envs and start the workers; called once, first, and `close` if it fails."""

    @property
    @abstractmethod
    def description(self) -> RowsDescription:
        """Spaces and the like."""

    @property
    @abstractmethod
    def lost(self) -> bool:
        """Whether a failed call could not be rolled back: all rows need a reset."""

    @property
    @abstractmethod
    def note(self) -> Any:
        """The last argument of `keep`: the vector env's `Episodes`; None before the first call."""

    @abstractmethod
    def keep(self, note: Any) -> None:
        """Commit the last call that moved rows, or may have.

        Until then any error or Ctrl-C rolls the call back: rows are in their states before it. The
        commit is one assignment, and nothing after it calls a function, since CPython delivers
        signals only around calls.

        Args:
            note: committed with it: the caller's record of the rows' episodes.
        """

    #: Descriptors of which one is readable when a worker has something to say.
    signs: Sequence[int] = ()

    @property
    @abstractmethod
    def backend(self) -> str:
        """Name of the backend that steps the rows."""

    @property
    @abstractmethod
    def backend_note(self) -> str:
        """Reason why a feature of the backend is unavailable; "" if all are available."""

    @property
    @abstractmethod
    def envs(self) -> list[gym.Env[Any, Any]]:
        """The env of every row, if they live in this process.

        Raises:
            AttributeError: they do not.
        """

    @property
    @abstractmethod
    def worker_pids(self) -> tuple[int, ...]:
        """Process ids of the workers, if there are any; empty after `close`."""

    @abstractmethod
    def use(self, space: spaces.Space[Any]) -> None:
        """Store observations of this space from now on; called once, before any call of rows."""

    @abstractmethod
    def begin_reset(
        self, rows: Sequence[int], seeds: Sequence[int | None], options: dict[str, Any] | None
    ) -> Any:
        """Begin to reset rows, for `finish_rows`; see `EnvRows.reset`."""

    @abstractmethod
    def begin_step(self, step: RowStep) -> Any:
        """Begin to step rows, for `finish_rows`, or reset some instead; see `EnvRows.step`."""

    @abstractmethod
    def finish_rows(self, call: Any, timeout: float | None) -> StepResults:
        """Wait for a step or a reset, and return its results, which are in `out` too.

        Args:
            call: what began it.
            timeout: seconds that it may take, or None.

        Raises:
            VectorTimeout: a worker did not answer in time, and was stopped.
        """

    @abstractmethod
    def begin_call(
        self, rows: Sequence[int], name: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Begin to call each row's env: an attribute, a method or a function; for `finish_call`."""

    @abstractmethod
    def finish_call(self, call: Any, timeout: float | None) -> list[Any]:
        """Wait for a call begun by `begin_call`; return each env's result."""

    @abstractmethod
    def set_attr(self, rows: Sequence[int], name: str, values: Sequence[Any]) -> None:
        """Set an attribute of the env of each row."""

    @abstractmethod
    def get_states(self, rows: Sequence[int]) -> Sequence[np.ndarray] | np.ndarray:
        """Return `[S]` uint8 state of each row; widths may differ."""

    @abstractmethod
    def set_states(
        self, rows: Sequence[int], states: Sequence[np.ndarray], observations: Any
    ) -> None:
        """Set rows to states; see `EnvRows.set_states`."""

    def kill(self) -> None:  # noqa: B027 - in this process there is none
        """End workers under a call of another thread, which fails; `close` follows."""

    @abstractmethod
    def close(self) -> None:
        """Release everything; further calls do nothing."""


def no_envs(backend: str) -> AttributeError:
    """Return the error of `VectorBackend.envs` for envs outside this process."""
    return AttributeError(
        f"envs: the sub-envs of the {backend} backend cannot be reached from this process. Use "
        "call, get_attr and set_attr, or backend='serial'."
    )

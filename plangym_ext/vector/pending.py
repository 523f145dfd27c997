"""PendingCalls: asynchronous calls of a vector env that are not collected yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from plangym_ext.errors import EnvClosed, WorkerDied
from plangym_ext.vector.memory.step_out import StepOut
from plangym_ext.vector.results import VectorClosed, VectorPending, VectorResetNeeded

#: Calls that a method NAME_async begins.
_BEGUN_BY_ASYNC = ("reset", "step", "call")


class Begun(NamedTuple):
    """A pending call.

    Attributes:
        name: of it.
        rows: numbers of the sub-envs that it is for.
        call: what the backend finishes it by.
        out: what it is written to.
    """

    name: str
    rows: Sequence[int]
    call: Any
    out: StepOut | None = None


class PendingCalls:
    """Calls begun by `reset_async`, `step_async` and `call_async`, until their wait.

    There is one call, or several steps without common sub-envs: they are waited for in the order in
    which they were begun.
    """

    def __init__(self) -> None:
        self._begun: tuple[Begun, ...] = ()
        self._closed = False

    @property
    def name(self) -> str:
        """Name of the call that was begun first; "" if there is none."""
        return self._begun[0].name if self._begun else ""

    def check_open(self, where: str) -> None:
        """Refuse all calls once closed."""
        if self._closed:
            raise VectorClosed(f"{where}: this vector env is closed. Make a new one.")

    def check_not_closed_under(self, error: BaseException) -> None:
        """Explain a call's `error` if another thread has ended its workers."""
        ended = isinstance(error, WorkerDied | EnvClosed) and not isinstance(error, VectorClosed)
        if self._closed and ended:
            raise VectorClosed(
                "close: another thread has closed this vector env in the middle of this call. Make "
                "a new one."
            ) from error

    def check_idle(self, where: str) -> None:
        """Refuse a new call while another is pending, and every call after `close`."""
        if self._begun or self._closed:
            raise self._refusal(where)

    def _refusal(self, where: str) -> Exception:
        self.check_open(where)
        name = self._begun[0].name
        asked = f"{where}_async" if where in _BEGUN_BY_ASYNC else where
        return VectorPending(  # in gymnasium's words, which programs may look for
            f"Calling `{asked}` while waiting for a pending call to `{name}` to complete: "
            f"{name}_async was called, so call {name}_wait first.",
            name,
        )

    def check_apart(self, rows: Sequence[int]) -> bool:
        """Refuse a step of sub-envs that a pending call may move.

        Returns:
            Whether there are others.
        """
        # Only steps may overlap, and only if no sub-env is moved by two of them.
        if any(begun.name != "step" for begun in self._begun) or not self._begun:
            self.check_idle("step")
        for begun in self._begun:
            if common := sorted({*rows} & {*begun.rows}):
                raise VectorPending(
                    "Calling `step_async` while waiting for a pending call to `step` to complete: "
                    f"both would step sub-envs {common}. Call step_wait first, or step others.",
                    "step",
                )
        return bool(self._begun)

    def begin(self, begun: Begun) -> None:
        """Note that a call was begun."""
        self._begun = (*self._begun, begun)

    def take(self, name: str, rows: Sequence[int] | None = None) -> Begun:
        """Remove and return the first pending `name`_async call.

        Args:
            name: of the call.
            rows: numbers of the sub-envs that it has to be for; None for any.

        Raises:
            NoAsyncCallError: (gymnasium's) there is no such call.
            VectorPending: others were begun before it.
        """
        if self._closed:
            raise VectorClosed(f"{name}_wait: this vector env is closed. Make a new one.")
        asked = None if rows is None else list(rows)
        fit = [b.name == name and (asked is None or list(b.rows) == asked) for b in self._begun]
        if not any(fit):
            of = "" if asked is None else f" of sub-envs {asked}"
            raise gym.error.NoAsyncCallError(
                f"{name}_wait: nothing{of} was begun by {name}_async. Call that first.", name
            )
        # Each process answers in order: a later one cannot be finished before an earlier one.
        begun = self._begun[0]
        if not fit[0]:
            raise VectorPending(
                f"{name}_wait: {begun.name}_async of sub-envs {list(begun.rows)} was called before "
                f"that of {asked}. Wait for it first: workers answer in order.",
                begun.name,
            )
        self._begun = self._begun[1:]
        return begun

    def close(self) -> None:
        """Forget all pending calls, and refuse new ones."""
        self._begun, self._closed = (), True


# Episodes ---------------------------------------------------------------------


# Of the module: to look a member up in an enum takes longer than to compare it.
_SAME_STEP, _DISABLED = AutoresetMode.SAME_STEP, AutoresetMode.DISABLED


class Episodes(NamedTuple):
    """The episodes of n sub-envs: running, or over.

    Never changed: what happens leads to another one, so that it can be kept together with
    where the rows are, at one moment. Methods take the vector env's present `AutoresetMode`:
    who resets what is over, and when.

    Attributes:
        ended: `[n]` bool, which are over and were not reset yet.
        none: `[n]` zeros, read-only.
    """

    ended: np.ndarray
    none: np.ndarray

    def begun(self, rows: Sequence[int] | np.ndarray, ended: np.ndarray | bool = False) -> Episodes:
        """Return the episodes after `rows` were reset, or set to states."""
        over = self.ended.copy()
        over[rows] = ended
        return Episodes(over, self.none)

    def resets(self, rows: Sequence[int], mode: AutoresetMode) -> np.ndarray:
        """Return `[k]` bool, the sub-envs that the next step resets instead; read-only.

        Raises:
            VectorResetNeeded: one has ended and is not reset by itself.
        """
        if mode is _SAME_STEP:
            return self.none[: len(rows)]
        if mode is _DISABLED and self.ended[list(rows)].any():
            ended = [row for row in rows if self.ended[row]]
            raise VectorResetNeeded(
                f"step: sub-envs {ended} have ended and autoreset is disabled. Reset them first: "
                "reset(options={'reset_mask': terminations | truncations})."
            )
        return self.ended if isinstance(rows, range) else self.ended[rows]

    def stepped(self, rows: Sequence[int], ended: np.ndarray, mode: AutoresetMode) -> Episodes:
        """Return the episodes after `rows` were stepped; `ended`, `[k]` bool, is kept."""
        if mode is _SAME_STEP:  # they have been reset
            if self.ended is self.none:
                return self
            ended = self.none[: len(rows)]
        if not isinstance(rows, range):
            over = self.ended.copy()
            over[rows] = ended
            ended = over
        return Episodes(ended, self.none)


def first_episodes(num_envs: int) -> Episodes:
    """Return the episodes of sub-envs that all are running."""
    none = np.zeros(num_envs, bool)
    none.flags.writeable = False
    return Episodes(none.copy(), none)

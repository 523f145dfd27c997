"""The call of a vector env that was begun and is to be waited for: one at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium as gym

from plangym_ext.vector.errors import VectorClosed, VectorPending
from plangym_ext.vector.step_out import StepOut

#: Calls that a method NAME_async begins.
_BEGUN_BY_ASYNC = ("reset", "step", "call")


class Begun(NamedTuple):
    """A call that was begun.

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


class PendingCall:
    """What `reset_async`, `step_async` and `call_async` begin, until it is waited for."""

    def __init__(self) -> None:
        self._begun: Begun | None = None
        self._closed = False

    @property
    def name(self) -> str:
        """Name of the call that was begun; "" if there is none."""
        return "" if self._begun is None else self._begun.name

    def check_idle(self, where: str) -> None:
        """Refuse another call before this one was waited for, and all calls once closed."""
        if self._closed:
            raise VectorClosed(f"{where}: this vector env is closed. Make a new one.")
        if self._begun is not None:
            name = self._begun.name
            asked = f"{where}_async" if where in _BEGUN_BY_ASYNC else where
            raise VectorPending(  # in gymnasium's words, which programs may look for
                f"Calling `{asked}` while waiting for a pending call to `{name}` to complete: "
                f"{name}_async was called, so call {name}_wait first.",
                name,
            )

    def begin(self, begun: Begun) -> None:
        """Note that a call was begun."""
        self._begun = begun

    def take(self, name: str) -> Begun:
        """Return what `name`_async began, which is pending no more."""
        if self._closed:
            raise VectorClosed(f"{name}_wait: this vector env is closed. Make a new one.")
        if self._begun is None or self._begun.name != name:
            raise gym.error.NoAsyncCallError(
                f"{name}_wait: nothing was begun by {name}_async. Call that first.", name
            )
        begun, self._begun = self._begun, None
        return begun

    def close(self) -> None:
        """Forget it, and take no others."""
        self._begun, self._closed = None, True

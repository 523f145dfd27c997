"""The call of a vector env that was begun and is to be waited for: one at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym

from plangym_ext.errors import WorkerTimeout
from plangym_ext.vector.errors import VectorClosed, VectorPending, VectorTimeout

#: Calls that a method NAME_async begins.
_BEGUN_BY_ASYNC = ("reset", "step", "call")


class PendingCall:
    """What `reset_async`, `step_async` and `call_async` begin, until it is waited for."""

    def __init__(self) -> None:
        #: Its name, the rows, and what waits for it.
        self._begun: tuple[str, Sequence[int], Callable[[float | None], Any]] | None = None
        self._closed = False

    @property
    def name(self) -> str:
        """Name of the call that was begun; "" if there is none."""
        return "" if self._begun is None else self._begun[0]

    def check_idle(self, where: str) -> None:
        """Refuse another call before this one was waited for, and all calls once closed."""
        if self._closed:
            raise VectorClosed(f"{where}: this vector env is closed. Make a new one.")
        if self._begun is not None:
            name = self._begun[0]
            asked = f"{where}_async" if where in _BEGUN_BY_ASYNC else where
            raise VectorPending(  # in gymnasium's words, which programs may look for
                f"Calling `{asked}` while waiting for a pending call to `{name}` to complete: "
                f"{name}_async was called, so call {name}_wait first.",
                name,
            )

    def whole(self, where: str) -> PendingCall:
        """Guard a call that is begun and waited for: an interrupt leaves nothing begun.

        Raises:
            VectorPending, VectorClosed: as `check_idle`.
        """
        self.check_idle(where)
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._begun = None

    def begin(self, name: str, rows: Sequence[int], later: Callable[[float | None], Any]) -> None:
        """Note that a call was begun.

        Args:
            name: of it.
            rows: numbers of the sub-envs that it is for.
            later: called with a limit in seconds, or None, gives its results.
        """
        self._begun = name, rows, later

    def wait(self, name: str, timeout: float | None) -> tuple[Any, Any]:
        """Return the rows and results of what was begun by `name`_async."""
        if self._closed:
            raise VectorClosed(f"{name}_wait: this vector env is closed. Make a new one.")
        if self._begun is None or self._begun[0] != name:
            raise gym.error.NoAsyncCallError(
                f"{name}_wait: nothing was begun by {name}_async. Call that first.", name
            )
        _, rows, later = self._begun
        self._begun = None
        try:
            return rows, later(timeout)
        except WorkerTimeout as error:
            raise VectorTimeout(str(error), workers=error.workers, rows=error.rows) from None

    def close(self) -> None:
        """Forget it, and take no others."""
        self._begun, self._closed = None, True

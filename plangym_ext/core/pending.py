"""Pending: handle of an asynchronous call whose result is not collected yet."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from plangym_ext.errors import ConcurrentUse

Result = TypeVar("Result")
Made = TypeVar("Made")

_UNGUARDED = contextlib.nullcontext()


class Pending(Generic[Result]):
    """Handle of a call in progress: `wait` returns the result of the plain call.

    Args:
        wait: waits for the result, at most so many seconds, and returns or raises it.
        poll: returns whether `wait` would return at once, after waiting for that up to so many
            seconds.
        drop: called if this is collected before anyone has waited for the result.
        guard: of the handle that the result belongs to.
        resumable: whether a call of `wait` that was interrupted, or that another thread's call
            has turned away, may be made again; else that was the outcome.
    """

    __slots__ = (
        "__weakref__",
        "_drop",
        "_error",
        "_guard",
        "_poll",
        "_result",
        "_resumable",
        "_wait",
    )

    def __init__(
        self,
        wait: Callable[[float | None], Result],
        poll: Callable[[float], bool],
        *,
        drop: Callable[[], object] | None = None,
        guard: contextlib.AbstractContextManager[Any] = _UNGUARDED,
        resumable: bool = False,
    ) -> None:
        self._wait: Callable[[float | None], Result] | None = wait
        self._poll, self._drop, self._guard = poll, drop, guard
        self._resumable = resumable
        self._result: Result | None = None
        self._error: BaseException | None = None

    @classmethod
    def done_by(cls, run: Callable[[], Result]) -> Pending[Result]:
        """Call a function now and return a `Pending` that already holds its result or error."""
        # No name for the result here: an error keeps this frame, which is to keep nothing.
        try:
            return cls._settled(run(), None)
        except Exception as error:  # raised by `wait`, as for what runs elsewhere
            return cls._settled(None, error)

    @classmethod
    def _settled(cls, result: Any, error: Exception | None) -> Pending[Result]:
        found = cls.__new__(cls)
        # `_poll` stays unset: it is asked only while there is something to wait for.
        found._wait = found._drop = None
        found._guard, found._resumable = _UNGUARDED, False
        found._result, found._error = result, error
        return found

    def then(
        self,
        finish: Callable[[Result], Made],
        guard: contextlib.AbstractContextManager[Any] = _UNGUARDED,
    ) -> Pending[Made]:
        """Return a `Pending` whose result is `finish` of this one's result.

        Args:
            finish: called by the first `wait`.
            guard: as for a new one.
        """
        # Without a `drop` of its own: it holds this one, which is dropped with it.
        return Pending(lambda timeout: finish(self.wait(timeout)), self.poll, guard=guard)

    @property
    def open(self) -> bool:
        """Whether the result is not collected yet."""
        return self._wait is not None

    def poll(self, timeout: float = 0.0) -> bool:
        """Return whether `wait` would return at once.

        Args:
            timeout: seconds to wait for that.
        """
        with self._guard:
            return self._wait is None or self._poll(timeout)

    def wait(self, timeout: float | None = None) -> Result:
        """Wait for the result; further calls return, or raise, the same again.

        Args:
            timeout: seconds after which a worker that has not answered is stopped and named;
                that of a batch is replaced. None waits as long as the handle's own limit says.

        Raises:
            WorkerTimeout: the result did not come in time.
            ConcurrentUse: another thread is in the middle of a call on the handle.
            Exception: as the plain call.
        """
        try:
            with self._guard:
                if self._wait is not None:
                    try:
                        self._result = self._wait(timeout)
                    except BaseException as error:
                        # An interrupt, or another thread's call: the result is still to come.
                        if self._resumable and not _is_outcome(error):
                            raise
                        self._error = error
                    # What it was waited for with may hold memory.
                    self._wait = self._drop = None
                    del self._poll
                if self._error is not None:
                    raise self._error
                result: Any = self._result
                return result
        finally:
            del self  # an error that is kept keeps this frame, which is not to keep the result

    #: The name that promises have in plangym: `env.step(..., blocking=False)()`.
    __call__ = wait

    def __del__(self) -> None:
        # Unset where `__init__` was never run to its end.
        drop = getattr(self, "_drop", None)
        if drop is not None:
            drop()


def _is_outcome(error: BaseException) -> bool:
    return isinstance(error, Exception) and not isinstance(error, ConcurrentUse)

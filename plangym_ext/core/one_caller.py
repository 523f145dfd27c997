"""A handle serves one call at a time: the guard that says so to a second thread."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from plangym_ext.errors import ConcurrentUse

Method = TypeVar("Method", bound=Callable[..., Any])


class OneCaller:
    """Context for the public calls of one handle; a call may make others inside it.

    Args:
        name: of the handle, for messages.

    Raises:
        ConcurrentUse: another thread is inside.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise ConcurrentUse(
                f"{self._name}: another thread is in the middle of a call on this handle. Give "
                "each thread an env of its own (env.clone()), or guard the calls with a lock."
            )

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    @contextlib.contextmanager
    def after_interrupting(self, interrupt: Callable[[], object], timeout: float) -> Iterator[None]:
        """Context that waits for another thread's call to end, having interrupted it.

        Args:
            interrupt: makes the other call fail soon; not called if there is none.
            timeout: seconds that it may take to end.
        """
        if not self._lock.acquire(blocking=False):
            interrupt()
            if not self._lock.acquire(timeout=timeout):
                self.__enter__()
        try:
            yield
        finally:
            self._lock.release()


def one_call(method: Method) -> Method:
    """Method that runs as a call of its handle, which has a guard `_one_caller`."""

    @functools.wraps(method)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self._one_caller:
            return method(self, *args, **kwargs)

    return cast("Method", guarded)

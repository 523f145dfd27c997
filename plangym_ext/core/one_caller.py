"""A handle serves one call at a time: the guard that says so to a second thread."""

from __future__ import annotations

import threading

from plangym_ext.errors import ConcurrentUse


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

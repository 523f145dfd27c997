"""Worker threads of a native backend: their number, and a pool for compiled code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from plangym_ext.core.numbers import at_least
from plangym_ext.core.one_caller import fork_count, usable_processors

Result = TypeVar("Result")


def checked_threads(threads: Any) -> int:
    """Return the threads to use: those asked for, or as many as there are processors if None.

    Raises:
        InvalidOption: not an integer >= 1.
    """
    if threads is None:
        return usable_processors()
    return at_least("threads", threads, 1)


class SharingThreads:
    """Threads that run shares of one piece of work; started when they are first needed.

    What they run has to let the interpreter go, as compiled code does.

    Args:
        most: threads that pay, the caller's among them.

    Attributes:
        most: the same.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._pool: ThreadPoolExecutor | None = None
        self._forks = 0

    def run(
        self, function: Callable[..., Result], shares: Sequence[tuple[Any, ...]]
    ) -> list[Result]:
        """Return a function's results for each share of arguments, on at most `most` threads.

        Returns when all of them have ended. Raises what one of them has raised.
        """
        if len(shares) == 1:
            return [function(*shares[0])]
        if self._pool is None or self._forks != fork_count():  # a child has no threads
            self._forks = fork_count()
            # The processors that a process may run on can have become more since `most` was set.
            count = max(self.most, len(shares)) - 1
            self._pool = ThreadPoolExecutor(count, thread_name_prefix="plangym-ext-kernel")
        # The first share runs in this thread: it would only wait otherwise.
        parts = [self._pool.submit(function, *share) for share in shares[1:]]
        try:
            first = function(*shares[0])
        finally:
            for part in parts:  # or they would go on writing to what the caller lets go
                part.exception()
        return [first, *(part.result() for part in parts)]

    def close(self) -> None:
        """End the threads; a further `run` would start new ones."""
        if self._pool is not None:
            # Another process has its threads, if they were started there.
            self._pool.shutdown(wait=self._forks == fork_count())
            self._pool = None

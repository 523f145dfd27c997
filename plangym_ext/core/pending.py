"""Batches that were begun and not yet collected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from plangym_ext.core.one_caller import OneCaller
from plangym_ext.core.rows import RowResults

Result = TypeVar("Result")


class RunningRows(Protocol):
    """What a backend gives for rows that it has begun to run."""

    def poll(self, timeout: float) -> bool:
        """Whether the rows are done, after waiting for that up to `timeout` seconds."""

    def wait(self, timeout: float | None) -> RowResults:
        """Their results; called once."""


class RowsRun:
    """Rows of a backend that runs them at once: they are done from the beginning."""

    def __init__(self, run: Callable[[], RowResults]) -> None:
        self._found: RowResults | Exception
        try:
            self._found = run()
        except Exception as error:  # raised again by `wait`, as by any other backend
            self._found = error

    def poll(self, timeout: float) -> bool:  # noqa: ARG002 - they are done
        """True."""
        return True

    def wait(self, timeout: float | None) -> RowResults:  # noqa: ARG002 - they are done
        """The results, or what the run raised."""
        if isinstance(self._found, Exception):
            raise self._found
        return self._found


class PendingBatch(Generic[Result]):
    """A batch in flight; `wait` gives what the plain call would have returned.

    Args:
        running: the backend's rows.
        finish: turns their results into the caller's.
        one_caller: the guard of the env that the batch belongs to.
    """

    def __init__(
        self,
        running: RunningRows,
        finish: Callable[[RowResults], Result],
        one_caller: OneCaller,
    ) -> None:
        self._running: RunningRows | None = running
        self._finish = finish
        self._one_caller = one_caller
        self._result: Result | None = None
        self._error: BaseException | None = None

    @property
    def open(self) -> bool:
        """Whether nobody has waited for the result yet."""
        return self._running is not None

    def poll(self, timeout: float = 0.0) -> bool:
        """Whether `wait` would return at once.

        Args:
            timeout: seconds to wait for that.
        """
        with self._one_caller:
            return self._running is None or self._running.poll(timeout)

    def wait(self, timeout: float | None = None) -> Result:
        """Wait for the batch; further calls give, or raise, the same again.

        Args:
            timeout: seconds after which a worker that has not answered is stopped,
                replaced and named. None waits as long as the env's own limit says.

        Raises:
            WorkerTimeout: the batch was not done in time.
            Exception: as the plain call.
        """
        with self._one_caller:
            if self._running is not None:
                running = self._running
                try:
                    self._result = self._finish(running.wait(timeout))
                except BaseException as error:
                    self._error = error
                    raise
                finally:
                    self._running = None
            elif self._error is not None:
                raise self._error
            assert self._result is not None
            return self._result

"""An answer of a worker that is still to come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plangym_ext.errors import ConcurrentUse


class Promise:
    """An answer to come: call it to wait for the result; further calls give it again.

    A promise that nobody keeps takes its answer along.

    Args:
        result: waits for the answer, at most so many seconds, and returns or raises what
            it says.
        forget: lets go of the answer.
    """

    def __init__(self, result: Callable[[float | None], Any], forget: Callable[[], object]) -> None:
        self._wait = result
        self._forget = forget
        self._settled = False
        self._result: Any = None
        self._error: Exception | None = None

    def __call__(self, timeout: float | None = None) -> Any:
        """Wait for the result.

        Args:
            timeout: seconds after which the worker is stopped; None waits as long as it
                lives.

        Raises:
            EnvClosed: the process was closed.
            WorkerTimeout: no answer in time; the worker has been stopped.
            WorkerDied: the worker is gone.
            ConcurrentUse: another thread is in the middle of a call; call again.
            Exception: what the env raised.
        """
        if self._settled:
            if self._error is not None:
                raise self._error
            return self._result
        # Whoever is interrupted, or turned away, may call again.
        try:
            self._result = self._wait(timeout)
        except ConcurrentUse:
            raise
        except Exception as error:
            self._error, self._settled = error, True
            raise
        self._settled = True
        return self._result

    def __del__(self) -> None:
        if not self._settled:
            self._forget()

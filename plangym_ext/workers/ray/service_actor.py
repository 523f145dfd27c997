"""The actor's side of a `RayWorker`: holds what a `Service` makes, and calls it."""

from __future__ import annotations

import os
import pickle
from typing import Any

from plangym_ext.workers.ray.driver import Driver
from plangym_ext.workers.remote_errors import ErrorReport


class ServiceActor:
    """Serves what a worker process would serve.

    Args:
        driver: that asks it.
        constructor: cloudpickle of a `Service`.
    """

    def __init__(self, driver: Driver, constructor: bytes) -> None:
        self._driver, self._constructor = driver, constructor
        self._served: Any = None

    def build(self) -> dict[str, Any] | ErrorReport:
        """Make what is served; return what it says of itself, or what was raised."""
        try:
            self._driver.meet()
            self._served = pickle.loads(self._constructor)()
            where = {"pid": os.getpid(), "host": os.uname().nodename}
            return {**self._served.description(), **where}
        except (Exception, SystemExit) as error:  # whatever the caller's constructor raises
            return ErrorReport.of(error)

    def call(self, name: str, *args: Any) -> Any:
        """Call a method of what is served; what it raises is the answer, as an `ErrorReport`."""
        try:
            return self._served.call(name, args, {})
        except (Exception, SystemExit) as error:  # any error of the env belongs to the caller
            return ErrorReport.of(error)

    def steps_done(self) -> int:
        """Return how far the call that is in progress is; called beside it."""
        return int(getattr(self._served, "steps_done", 0))

    def close(self) -> None:
        """Close what is served."""
        if self._served is not None:
            self._served.close()

"""Workplace: interface for starting workers on this machine or on a cluster."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal, Protocol

import numpy as np

from plangym_ext.arrays import Array
from plangym_ext.arrays.closing import Closing
from plangym_ext.core.pending import Pending
from plangym_ext.errors import WorkerDied, WorkerTimeout
from plangym_ext.workers.processors import default_n_workers
from plangym_ext.workers.protocol import Service
from plangym_ext.workers.worker_handle import WorkerHandle


class ServiceWorker(Protocol):
    """Protocol of a worker with a service, for its parent; see `WorkerHandle`."""

    @property
    def fallen(self) -> WorkerDied | None:
        """How the worker ended, once that was seen; None again when it is restarted."""

    def build(self) -> None:
        """Start the worker, which begins to build its service."""

    def describe(self) -> dict[str, Any]:
        """Return the service's description; waits until it is built."""

    def call(self, name: str, *args: Any) -> Pending[Any]:
        """Call a method of the served object."""

    def restart(self) -> None:
        """Replace the worker, dead or alive, by a new one."""

    def hung(self, seconds: float | None, doing: str = "") -> WorkerTimeout:
        """Return the error for a worker that has not answered in time; ends it."""

    def death(self) -> WorkerDied:
        """Return the error with a dead worker's end."""

    def begin_close(self) -> None:
        """Ask the worker to leave, without waiting for it."""

    def close(self) -> None:
        """Close the service and end the worker; safe to call twice."""


class Workplace(Closing):
    """Abstract; the machine or cluster on which a sampler's workers run.

    Attributes:
        storage: of arrays that both this process and the workers are to see: "shared", or
            "local" where workers have none of this process's memory.
    """

    storage: Literal["local", "shared"]

    @abstractmethod
    def worker(self, service: Service, index: int) -> ServiceWorker:
        """Return a worker, which `build` starts."""

    @abstractmethod
    def default_workers(self) -> int:
        """Return the default number of workers: one per processor."""

    @abstractmethod
    def placed(self, value: Any) -> Any:
        """Return a reference to a value for calls to several workers."""

    @abstractmethod
    def steps_done(self, worker: Any, progress: Array) -> int:
        """Return how far a worker is.

        Args:
            worker: of `worker`.
            progress: `[1]` int64 that it was given to write to, of `storage`.
        """

    @abstractmethod
    def pid(self, worker: Any) -> int:
        """Return the process of a worker now, on whichever machine."""


class ThisMachine(Workplace):
    """Worker processes of this machine."""

    storage = "shared"

    def worker(self, service: Service, index: int) -> WorkerHandle:
        """See `Workplace`."""
        return WorkerHandle(service, index=index)

    def default_workers(self) -> int:
        """See `Workplace`."""
        return default_n_workers()

    def placed(self, value: Any) -> Any:
        """Return the value: each worker is sent a copy."""
        return value

    def steps_done(self, worker: Any, progress: Array) -> int:  # noqa: ARG002
        """See `Workplace`."""
        return int(np.asarray(progress)[0])

    def pid(self, worker: Any) -> int:
        """See `Workplace`."""
        return int(worker.process.pid)

    def close(self) -> None:
        """Do nothing: workers are closed one by one."""

"""Workplace: the place where workers are started, this machine or a Ray cluster."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np

from plangym_ext.arrays import Array
from plangym_ext.arrays.closing import Closing
from plangym_ext.workers.protocol import Service
from plangym_ext.workers.ray.cluster import connection, processors_of_nodes, ray_module
from plangym_ext.workers.ray.ray_worker import RayWorker
from plangym_ext.workers.scheduling import default_n_workers
from plangym_ext.workers.worker_handle import WorkerHandle

#: A worker that a workplace has made; both have the same methods.
ServiceWorker: TypeAlias = "WorkerHandle | RayWorker"


class Workplace(Closing):
    """This machine, on which a sampler's workers run; `RayCluster` is another.

    Attributes:
        storage: of arrays that both this process and the workers are to see: "shared", or
            "local" where workers have none of this process's memory.
    """

    storage: Literal["local", "shared"] = "shared"

    def worker(self, service: Service, index: int) -> WorkerHandle | RayWorker:
        """Return a worker, which `build` starts."""
        return WorkerHandle(service, index=index)

    def default_workers(self) -> int:
        """Return the default number of workers: one per processor."""
        return default_n_workers()

    def placed(self, value: Any) -> Any:
        """Return a reference to a value for calls to several workers; here it is the value."""
        return value

    def steps_done(self, worker: Any, progress: Array) -> int:  # noqa: ARG002
        """Return the number of steps that a worker has taken.

        Args:
            worker: of `worker`.
            progress: `[1]` int64 that it was given to write to, of `storage`.
        """
        return int(np.asarray(progress)[0])

    def pid(self, worker: Any) -> int:
        """Return the process of a worker now, on whichever machine."""
        return int(worker.process.pid)

    def close(self) -> None:
        """Do nothing here: workers are closed one by one."""


# RayCluster: a Ray cluster as the workplace of a sampler's workers ------------


class RayCluster(Workplace):
    """Workplace of actors on a Ray cluster, which other programs may use as well.

    Args:
        address: of the cluster; as of `RayEnv`.

    Raises:
        MissingExtra: Ray is not installed.
        ConnectionError: there is no cluster at the address.
    """

    storage = "local"

    def __init__(self, address: str | None = None) -> None:
        connection.join(address)
        self._joined = True

    def worker(self, service: Service, index: int) -> RayWorker:
        return RayWorker(service, index, int(not connection.started))

    def default_workers(self) -> int:
        return default_n_workers() if connection.started else sum(processors_of_nodes())

    def placed(self, value: Any) -> Any:
        """Put a value into the object store, once."""
        return ray_module().put(value)

    def steps_done(self, worker: Any, progress: Array) -> int:  # noqa: ARG002
        found: int = worker.steps_done()
        return found

    def pid(self, worker: Any) -> int:
        found: int = worker.pid
        return found

    def close(self) -> None:
        """Disconnect; a cluster started by this object ends. Safe to call twice."""
        if self._joined:
            self._joined = False
            connection.leave()

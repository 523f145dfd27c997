"""RayCluster: a Ray cluster as the workplace of a sampler's workers."""

from __future__ import annotations

from typing import Any

from plangym_ext.arrays import Array
from plangym_ext.workers.processors import default_n_workers
from plangym_ext.workers.protocol import Service
from plangym_ext.workers.ray.cluster import connection, processors_of_nodes, ray_module
from plangym_ext.workers.ray.ray_worker import RayWorker
from plangym_ext.workers.workplace import Workplace


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
        """See `Workplace`."""
        return RayWorker(service, index, int(not connection.started))

    def default_workers(self) -> int:
        """See `Workplace`."""
        return default_n_workers() if connection.started else sum(processors_of_nodes())

    def placed(self, value: Any) -> Any:
        """Put a value into the object store, once."""
        return ray_module().put(value)

    def steps_done(self, worker: Any, progress: Array) -> int:  # noqa: ARG002
        """See `Workplace`."""
        found: int = worker.steps_done()
        return found

    def pid(self, worker: Any) -> int:
        """See `Workplace`."""
        found: int = worker.pid
        return found

    def close(self) -> None:
        """Disconnect; a cluster started by this object ends. Safe to call twice."""
        if self._joined:
            self._joined = False
            connection.leave()

"""RayEnv: the workers of `ParallelEnv` as actors on a Ray cluster."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from plangym_ext.compat.plangym.vectorization.env import VectorizedEnv
from plangym_ext.compat.plangym.vectorization.parallel import BatchEnv, Served
from plangym_ext.workers.protocol import Service
from plangym_ext.workers.workplace import RayCluster


class RayEnv(VectorizedEnv):
    """Batches on actors of the cluster that this process has joined, or of this machine.

    Args:
        env_class: class of the face; for the others see `VectorizedEnv`.
    """

    def _workers(self, make: Callable[[], Any]) -> BatchEnv:
        self._cluster = RayCluster()
        service = Service(functools.partial(Served, make))
        return BatchEnv([self._cluster.worker(service, i) for i in range(self.n_workers)])

    def __getstate__(self) -> dict[str, Any]:
        return {k: value for k, value in super().__getstate__().items() if k != "_cluster"}

    def close(self) -> None:
        super().close()
        if "_cluster" in vars(self):
            self._cluster.close()

"""TorchGroup: data-parallel learners on one machine through `torch.distributed`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.closing import Closing
from plangym_ext.errors import InvalidOption, LearnerLost
from plangym_ext.learn.group import LearnerGroup
from plangym_ext.learn.torch_extra import torch

#: Names the network interface of gloo.
_INTERFACE = "GLOO_SOCKET_IFNAME"


@final
class TorchGroup(LearnerGroup, Closing):
    """The default process group of `torch.distributed`, created for this process.

    Tensors in the memory of the processors travel by gloo, through the loopback interface. Those
    of GPUs travel by nccl if each learner has a GPU of its own, and else by gloo.

    Args:
        path: of a file in an existing folder, by which the learners find each other; it is
            made, and of no more use once this returns in all of them.
        rank: number of this learner.
        size: how many there are; this waits for them.
        device: of the weights.
        timeout: seconds that an exchange may take; None: a day.
        failed: called if an exchange fails; raises why, if it knows.

    Raises:
        InvalidOption: there is such a group in this process.
        LearnerLost: the others did not come. So do the methods, if one is gone.
    """

    def __init__(
        self,
        path: Path,
        rank: int,
        size: int,
        *,
        device: str = "cpu",
        timeout: float | None = 300.0,
        failed: Callable[[], None] | None = None,
    ) -> None:
        self.rank, self.size = rank, size
        self._failed = failed
        self._open = False
        distributed: Any = torch.distributed
        if distributed.is_initialized():
            raise InvalidOption(
                "learners: torch.distributed has a process group in this process, and a run of "
                "several learners needs its own. Begin the run in another process."
            )
        alone_on_gpu = device.startswith("cuda") and torch.cuda.device_count() >= size
        with self._exchange(), _loopback(), _own_excepthook():
            distributed.init_process_group(
                "cpu:gloo,cuda:nccl" if alone_on_gpu else "gloo",
                store=distributed.FileStore(str(path), size),
                rank=rank,
                world_size=size,
                # None would be a default of torch: some minutes.
                timeout=timedelta(days=1) if timeout is None else timedelta(seconds=timeout),
            )
            # From here on there is a group to leave: `close` before this has nothing to do.
            self._open = True

    def average(self, vectors: Sequence[Any]) -> None:
        with self._exchange():
            for vector in vectors:
                torch.distributed.all_reduce(vector)
        for vector in vectors:
            # After the sum: all learners divide the same numbers, and so have the same mean.
            vector.div_(self.size)

    def share(self, tensors: Iterable[Any]) -> None:
        with self._exchange():
            for tensor in tensors:
                # One after the other, in the order in which all learners name them.
                torch.distributed.broadcast(tensor, 0)

    def rows(self, mine: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return `[size, K]` float64, fresh, the rows `[K]` of all learners."""
        # A sum with zeros changes no bit.
        found = torch.zeros((self.size, len(mine)), dtype=torch.float64)
        found[self.rank] = torch.from_numpy(mine)
        with self._exchange():
            torch.distributed.all_reduce(found)
        return found.numpy()

    def gathered(self, mine: Any) -> list[Any]:
        found: list[Any] = [None] * self.size
        with self._exchange():
            torch.distributed.all_gather_object(found, mine)
        return found

    @contextmanager
    def _exchange(self) -> Iterator[None]:
        """Say why, if the others cannot be reached."""
        try:
            yield
        except RuntimeError as error:  # all that torch says of it
            if self._failed is not None:
                self._failed()
            raise LearnerLost(
                f"learner {self.rank} of {self.size}: it cannot reach the others "
                f"({str(error).splitlines()[0]}). Go on from the last checkpoint."
            ) from error

    def close(self) -> None:
        """Leave the group, which fails the exchanges of the others; safe to call twice."""
        if self._open:
            self._open = False
            torch.distributed.destroy_process_group()


@contextmanager
def _own_excepthook() -> Iterator[None]:
    """Keep how this process shows errors, which torch would change for good."""
    before = sys.excepthook
    try:
        yield
    finally:
        sys.excepthook = before


@contextmanager
def _loopback() -> Iterator[None]:
    """Set gloo's interface to loopback, unless the user has named one."""
    if _INTERFACE in os.environ or not os.path.isdir("/sys/class/net/lo"):
        yield
        return
    os.environ[_INTERFACE] = "lo"
    try:
        yield
    finally:
        del os.environ[_INTERFACE]

"""torch's own randomness, threads and kernels: what is fixed for a run to be repeated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from plangym_ext.learn.torch_extra import torch


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's generators, and put them back as they were when the block ends.

    A process has one for each device: two threads in here at once draw from each other's.
    """
    cuda: Any = torch.cuda
    # Of GPUs only where CUDA has started: to fork their generators would start it.
    gpus = range(cuda.device_count()) if cuda.is_initialized() else ()
    with torch.random.fork_rng(devices=gpus):
        torch.manual_seed(seed)
        yield


def fix_threads(count: int) -> int:
    """Let torch use so many threads; returns how many it used before.

    Sums are added in an order that depends on their number.
    """
    before: int = torch.get_num_threads()
    torch.set_num_threads(count)
    return before


@contextmanager
def fixed_kernels() -> Iterator[None]:
    """Have convolutions on GPUs add in one order until the block ends."""
    cudnn = torch.backends.cudnn
    before = cudnn.deterministic, cudnn.benchmark
    # `benchmark` chooses among orders by the clock.
    cudnn.deterministic, cudnn.benchmark = True, False
    try:
        yield
    finally:
        cudnn.deterministic, cudnn.benchmark = before


class TorchRandom:
    """A stream of torch's generators that belongs to one run, such as for dropout.

    Args:
        seed: of the stream.
        device: of what draws; on a GPU its generator is a part of the stream, beside the CPU's.
    """

    def __init__(self, seed: int, device: Any = "cpu") -> None:
        device = torch.device(device)
        self._gpus = [device] if device.type == "cuda" else []
        with seeded(seed):
            self._states = self._present()

    @contextmanager
    def used(self) -> Iterator[None]:
        """Let torch draw from this stream while the block runs."""
        with self._put_back(), fixed_kernels():
            torch.random.set_rng_state(self._states[0])
            for gpu, state in zip(self._gpus, self._states[1:], strict=True):
                torch.cuda.set_rng_state(state, gpu)
            try:
                yield
            finally:
                # Also after an error: what was drawn until then was drawn.
                self._states = self._present()

    def _put_back(self) -> Any:
        return torch.random.fork_rng(devices=self._gpus)

    def _present(self) -> list[torch.Tensor]:
        return [torch.random.get_rng_state(), *map(torch.cuda.get_rng_state, self._gpus)]

    def state_dict(self) -> Any:
        """Return the state, `[N]` uint8: of the CPU's generator, then of the GPU's."""
        return torch.cat(self._states).numpy()

    def load_state_dict(self, state: Any) -> None:
        """Go on from a state; a generator that it has nothing of stays as it is."""
        whole = torch.from_numpy(np.array(state, np.uint8))
        for i, own in enumerate(self._states):
            part, whole = whole[: len(own)], whole[len(own) :]
            if len(part):
                self._states[i] = part

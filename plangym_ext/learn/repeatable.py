"""torch's own randomness and threads: what has to be fixed for a run to be repeated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from plangym_ext.learn.torch_extra import torch


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's generator, and put it back as it was when the block ends.

    A process has one such generator: two threads in here at once draw from each other's.
    """
    # On the CPU alone: to fork the generators of GPUs would start CUDA.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def fix_threads(count: int) -> int:
    """Let torch use so many threads; returns how many it used before.

    Sums are added in an order that depends on their number.
    """
    before: int = torch.get_num_threads()
    torch.set_num_threads(count)
    return before


class TorchRandom:
    """A stream of torch's generator that belongs to one run, such as for dropout.

    Args:
        seed: of the stream.
    """

    def __init__(self, seed: int) -> None:
        with seeded(seed):
            self._state: torch.Tensor = torch.random.get_rng_state()

    @contextmanager
    def used(self) -> Iterator[None]:
        """Let torch draw from this stream while the block runs."""
        with torch.random.fork_rng(devices=[]):
            torch.random.set_rng_state(self._state)
            try:
                yield
            finally:
                # Also after an error: what was drawn until then was drawn.
                self._state = torch.random.get_rng_state()

    def state_dict(self) -> Any:
        """Return the state, `[N]` uint8."""
        return self._state.numpy().copy()

    def load_state_dict(self, state: Any) -> None:
        """Go on from a state."""
        self._state = torch.from_numpy(np.array(state, np.uint8))

"""Reproducible torch: seeds, thread counts, deterministic kernels; reuse of freed memory."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from plangym_ext.core.numbers import at_least, told
from plangym_ext.errors import ConcurrentUse, InvalidOption
from plangym_ext.learn.torch_extra import torch

#: Seconds that a thread waits for another one's updates.
_PATIENCE = 600.0


class _Chance:
    """Ownership of torch's random generators, of which a process has one for each device.

    One thread at a time, or several that learn together: these wait for each other, so none of
    them can be kept from its turn until another one is through.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        #: Threads that draw, how many blocks each is in, and whether it is alone.
        self._in: dict[int, int] = {}
        self._alone = False

    @contextmanager
    def mine(self, alone: bool) -> Iterator[None]:
        me = threading.get_ident()
        with self._changed:
            self._wait(me, alone)
            self._in[me] = self._in.get(me, 0) + 1
            if len(self._in) == 1:
                self._alone = alone if self._in[me] == 1 else self._alone
        try:
            yield
        finally:
            with self._changed:
                self._in[me] -= 1
                if not self._in[me]:
                    del self._in[me]
                self._changed.notify_all()

    def forked(self) -> None:
        """Forget the threads that a forked process has not got."""
        me = threading.get_ident()
        self._changed = threading.Condition()
        self._in = {who: count for who, count in self._in.items() if who == me}

    def _wait(self, me: int, alone: bool) -> None:
        until = time.monotonic() + _PATIENCE
        # A thread that is in already goes on: it may make a network while it learns.
        while self._in and me not in self._in and (alone or self._alone):
            if not self._changed.wait(max(0.0, until - time.monotonic())):
                raise ConcurrentUse(
                    f"torch's generator of random numbers, of which a process has one, was in use "
                    f"by another thread for {_PATIENCE:g} s: runs, algorithms and networks that "
                    f"are made wait for each other, so that each draws what it would draw alone. "
                    f"Let none wait for a thread that learns; or run them in processes of their "
                    f"own."
                )


_chance = _Chance()
os.register_at_fork(after_in_child=_chance.forked)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's generators, and restore their states at the end of the block.

    A process has one for each device: other threads wait until this one is through.

    Raises:
        ConcurrentUse: another thread was not through for ten minutes.
    """
    if not at_least("seed", seed, -(2**63)) < 2**64:
        raise InvalidOption(f"seed must be an integer of 64 bits; got {told(seed)}.")
    with _chance.mine(alone=True):
        cuda: Any = torch.cuda
        # Of GPUs only where CUDA has started: to fork their generators would start it.
        gpus = range(cuda.device_count()) if cuda.is_initialized() else ()
        with torch.random.fork_rng(devices=gpus):
            torch.manual_seed(seed)
            yield


class Threads:
    """torch's thread count during runs, restored after the last one.

    Sums are added in an order that depends on their number, so runs at once want the same.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted: list[tuple[int, int]] = []
        self._before = 0

    def hold(self, count: int) -> None:
        """Set the thread count until `release`.

        Raises:
            ConcurrentUse: a run in another thread wants another number.
        """
        me = threading.get_ident()
        with self._lock:
            others = [number for who, number in self._wanted if who != me and number != count]
            if others:
                raise ConcurrentUse(
                    f"threads must be the same in runs at once, as torch has one number of them in "
                    f"a process; got {count}, and a run in another thread has {others[0]}. Give "
                    f"them the same, or run them in processes of their own."
                )
            if not self._wanted:
                self._before = torch.get_num_threads()
            self._wanted.append((me, count))
            fix_threads(count)

    def release(self, count: int) -> None:
        """Restore the thread count of the surrounding runs."""
        with self._lock:
            at = max(i for i, (_, number) in enumerate(self._wanted) if number == count)
            del self._wanted[at]
            fix_threads(self._wanted[-1][1] if self._wanted else self._before)


#: Of the process.
THREADS = Threads()


def fix_threads(count: int) -> int:
    """Set torch's thread count; return the previous one.

    Sums are added in an order that depends on their number.
    """
    before: int = torch.get_num_threads()
    torch.set_num_threads(count)
    return before


@contextmanager
def fixed_kernels() -> Iterator[None]:
    """Make convolutions on GPUs deterministic until the block ends."""
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
    def used(self, *, together: bool = False) -> Iterator[None]:
        """Let torch draw from this stream while the block runs; other threads wait.

        Args:
            together: whether other learners are waited for in the block, which may be threads.
        """
        put_back = torch.random.fork_rng(devices=self._gpus)
        with _chance.mine(alone=not together), put_back, fixed_kernels():
            torch.random.set_rng_state(self._states[0])
            for gpu, state in zip(self._gpus, self._states[1:], strict=True):
                torch.cuda.set_rng_state(state, gpu)
            try:
                yield
            finally:
                # Also after an error: what was drawn until then was drawn.
                self._states = self._present()

    def _present(self) -> list[torch.Tensor]:
        return [torch.random.get_rng_state(), *map(torch.cuda.get_rng_state, self._gpus)]

    def state_dict(self) -> Any:
        """Return the state, `[N]` uint8: of the CPU's generator, then of the GPU's."""
        return torch.cat(self._states).numpy()

    def load_state_dict(self, state: Any) -> None:
        """Continue from a state; generators without a saved state stay."""
        whole = torch.from_numpy(np.array(state, np.uint8))
        for i, own in enumerate(self._states):
            part, whole = whole[: len(own)], whole[len(own) :]
            if not len(part):
                continue
            if not i:
                # On another one, which refuses what is no state: the run's own would do so in its
                # first round.
                torch.Generator().set_state(part)
            self._states[i] = part


#: Of `mallopt(3)`: bytes of free memory that a process keeps, and of the arrays that are handed
#: back to the system when they are freed; how large they are here; what sets them from outside.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT, _HANDED_BACK = 512 * 2**20, 128 * 2**20
_SET_OUTSIDE = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def keep_freed_memory() -> bool:
    """Set the C allocator to keep freed memory for reuse, for the life of this process.

    A learner frees the same tensors after every batch. The GNU C library hands those of
    megabytes back to the system, which fills all their pages with zeros before it lends them
    again: 7,000 pages for a batch of 256 screens, a tenth of the time that it takes. Blocks above
    128 MiB, such as a replay, are returned to the system as before, and so is free memory beyond
    512 MiB.

    Returns:
        Whether it is so now. Not with another C library, nor where the environment says what
        `malloc` is to do.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None or any(name in os.environ for name in _SET_OUTSIDE):
        return False
    return bool(mallopt(_M_TRIM_THRESHOLD, _KEPT) and mallopt(_M_MMAP_THRESHOLD, _HANDED_BACK))

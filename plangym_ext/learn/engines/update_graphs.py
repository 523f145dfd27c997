"""Updates recorded as CUDA graphs (UpdateGraphs), and `torch.compile` of networks."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from plangym_ext.arrays.nested import leaves, mapped
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.engines.flat_optimizer import FlatOptimizer
from plangym_ext.learn.schedule import Number, at
from plangym_ext.learn.torch_extra import nn, torch

#: Calls before the one that is recorded, in which libraries make what they need once.
_WARM = 3

#: Optimisers that an update steps, with the learning rate of each.
_Rates = list[tuple[FlatOptimizer, Number]]


class Work(NamedTuple):
    """The update to record, and the tensors that it changes."""

    #: Learns from steps, and returns scalars by name, and errors `[N]` or None. It steps optimisers
    #: by `UpdateGraphs.descend`, and never waits for the device.
    update: Callable[[Any], tuple[Mapping[str, Any], Any]]
    #: Yields all tensors that it changes, besides those of optimisers.
    changed: Callable[[], Iterator[Any]]
    optimizers: Mapping[str, FlatOptimizer]


class _Made(NamedTuple):
    """Log sums, errors and rates of a recorded update; a replay overwrites the tensors."""

    names: tuple[str, ...]
    total: Any  # [K] sums over all replays of what is logged by these names
    errors: Any  # [N] new priorities of the steps; None: they keep theirs
    rates: _Rates


class UpdateGraphs:
    """Makes updates on a GPU, without Python between their kernels.

    A kernel of a small network is over before Python has begun the next. Numbers are those that
    the same kernels make one by one: noise comes from the generator of the GPU, which goes on
    with each replay, and rates are numbers on the device.

    Whether losses are finite is not looked at in each update, for which the host would have to
    wait, but by `lost`; from the first one on that is not, optimisers take no step.
    """

    def __init__(self, device: Any) -> None:
        self._device = device
        self._failed = torch.zeros((), device=device, dtype=torch.float32)
        #: Updates since `begin` before the first that failed, there, and all of them.
        self._sound = torch.zeros((), device=device, dtype=torch.float32)
        self._begun = 0
        self._steps: Any = None
        self._rates: _Rates = []
        #: By kind: what replays an update, and what comes of it.
        self._graphs: dict[Hashable, tuple[Callable[[], Any], _Made]] = {}
        #: How often each was replayed since `begin`.
        self._replayed: Counter[Hashable] = Counter()

    def begin(self) -> None:
        """Begin a round: clear the logged sums and the failure flag."""
        self._failed.zero_()
        self._sound.zero_()
        self._begun = 0
        for kind in self._replayed:
            self._graphs[kind][1].total.zero_()
        self._replayed.clear()

    def update(self, work: Work, kind: Hashable, steps: Any, updates: int) -> Any:
        """Make an update; return the errors of its steps, `[N]` until the next one, or None.

        Args:
            work: the same in all calls, since the first is recorded.
            kind: the same for updates that do the same, such as to teach the policy too.
            steps: a named tuple of tensors, nested or None, of the same shapes in all calls.
            updates: how many were made before, the time of schedules.
        """
        self._hold(steps)
        if kind not in self._graphs:
            self._graphs[kind] = self._recorded(work)
        replay, made = self._graphs[kind]
        for optimizer, rate in made.rates:
            optimizer.set_rate(at(rate, updates))
        self._replayed[kind] += 1
        self._begun += 1
        replay()
        return made.errors

    def descend(self, optimizer: FlatOptimizer, loss: Any, rate: Number, max_norm: float) -> Any:
        """Take one step of an optimiser in an update; return the norm of its gradient."""
        self._rates.append((optimizer, rate))
        return optimizer.descend_unless(self._failed, loss, max_norm)

    def lost(self) -> int:
        """Return the number of lost updates since `begin`: the first that failed and later ones."""
        return self._begun - int(self._sound)

    def totals(self) -> Iterator[tuple[str, float, int]]:
        """Yield names, sums and counts of the logged numbers since `begin`."""
        for kind, replays in self._replayed.items():
            made = self._graphs[kind][1]
            for name, total in zip(made.names, made.total.tolist(), strict=True):
                yield name, total, replays

    def forget(self) -> None:
        """Drop all recordings, since tensors were replaced."""
        self._graphs.clear()
        self._replayed.clear()
        self._steps = None

    def _hold(self, steps: Any) -> None:
        """Bring steps to where graphs read them."""
        there = [part is not None for part in steps]
        if self._steps is None or there != [part is not None for part in self._steps]:
            # A replay may begin to tell which actions may be played.
            self.forget()
            copies = (None if part is None else mapped(torch.clone, part) for part in steps)
            self._steps = type(steps)(*copies)
        torch._foreach_copy_(_tensors(self._steps), _tensors(steps))

    # Recording ------------------------------------------------------------------

    def _recorded(self, work: Work) -> tuple[Callable[[], Any], _Made]:
        """Record an update of the steps that are there; nothing is learned by that."""
        changed = [*work.changed(), self._failed, self._sound]
        for optimizer in work.optimizers.values():
            optimizer.begin()
            changed += optimizer.changed_by_steps()
        total: list[Any] = []
        with _put_back(changed):
            replay, made = captured(lambda: self._made(work, total), self._device)
        made.total.zero_()
        return replay, made

    def _made(self, work: Work, total: list[Any]) -> _Made:
        """Make an update; `total` is empty before the first call."""
        self._rates = []
        logged, errors = work.update(self._steps)
        self._sound += 1 - self._failed
        numbers = torch.stack([*logged.values()])
        if not total:
            # In a call that is not recorded: each replay would begin with zeros.
            total.append(torch.zeros_like(numbers))
        total[0] += numbers
        return _Made(tuple(logged), total[0], errors, self._rates)


def captured(call: Callable[[], Any], device: Any) -> tuple[Callable[[], Any], Any]:
    """Return a replay function for the kernels of a call, and the call's result.

    It is called a few times; what it has drawn from the generator of the GPU is put back.

    Raises:
        InvalidOption: the call cannot be recorded.
    """
    cuda: Any = torch.cuda
    with cuda.device(device):
        generator = cuda.get_rng_state(device)
        # Not the stream that is used by default, of which nothing can be recorded.
        stream = cuda.Stream()
        stream.wait_stream(cuda.current_stream())
        try:
            with cuda.stream(stream):
                for _ in range(_WARM):
                    call()
            graph = cuda.CUDAGraph()
            try:
                # What other threads do is neither recorded nor refused. The stream is named, as
                # torch's own is of the GPU that was recorded on first.
                with cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
                    found = call()
            except RuntimeError as error:
                # The calls before have gone well.
                reason = str(error).splitlines()[0].rstrip(".")
                raise InvalidOption(
                    f"an update on a GPU cannot be recorded ({reason}). A network of your own must "
                    f"not read numbers from the GPU in its forward pass. Change that, or set "
                    f"compiled=False."
                ) from error
        finally:
            cuda.current_stream().wait_stream(stream)
            cuda.set_rng_state(generator, device)

    def replay() -> None:
        # On the stream of this device, on which its inputs were written.
        with cuda.device(device):
            graph.replay()

    return replay, found


@contextmanager
def _put_back(tensors: list[Any]) -> Iterator[None]:
    """Put back what tensors hold when the block ends, however it does."""
    before = [tensor.clone() for tensor in tensors]
    try:
        yield
    finally:
        with torch.no_grad():
            torch._foreach_copy_(tensors, before)


def _tensors(steps: Any) -> list[Any]:
    return [leaf for part in steps if part is not None for leaf in leaves(part)]


#: Programs that torch compiles C++ with.
_COMPILERS = ("g++", "clang++", "cl")


def torch_compiled(module: nn.Module, where: str) -> Any:
    """Return a compiled version of a module with the module's own weights.

    The first call with inputs of some shape takes a minute or so.

    Raises:
        InvalidOption: there is no compiler.
    """
    own = os.environ.get("CXX")
    names = (own,) if own else _COMPILERS
    if not any(map(shutil.which, names)):
        raise InvalidOption(
            f"{where}: compile=True needs a C++ compiler; {' or '.join(names)} is not on the PATH. "
            f"Install one, or leave compile at False."
        )
    return torch.compile(module, dynamic=False)

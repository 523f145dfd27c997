"""Updates on a GPU that are recorded once, and replayed as one piece of work."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, NamedTuple

from plangym_ext.arrays.nested import leaves, mapped
from plangym_ext.learn.algorithms.flat_optimizer import FlatOptimizer
from plangym_ext.learn.schedule import Number, at
from plangym_ext.learn.torch_extra import torch

#: Calls before the one that is recorded, in which libraries make what they need once.
_WARM = 3

#: Optimisers that an update steps, with the learning rate of each.
_Rates = list[tuple[FlatOptimizer, Number]]


class _Made(NamedTuple):
    """What comes of an update; a replay overwrites the tensors."""

    names: tuple[str, ...]
    total: Any  # [K] sums over all replays of what is logged by these names
    errors: Any  # [N] new priorities of the steps; None: they keep theirs
    rates: _Rates


class UpdateGraphs:
    """Makes the updates of an algorithm on a GPU, without Python between its kernels.

    A kernel of a small network is over before Python has begun the next. Numbers are those that
    the same kernels make one by one: noise comes from the generator of the GPU, which goes on
    with each replay, and rates are numbers on the device.

    Whether a loss is finite is not looked at after each update, for which the host would have to
    wait, but by `failed`; from the first one on that is not, optimisers take no step.

    Args:
        update: learns from steps, and returns scalars by name, and errors `[N]` or None. It steps
            optimisers by `descend`, and never waits for the device.
        changed: yields all tensors that it changes, besides those of optimisers.
        optimizers: that it steps.
        device: of all these.
    """

    def __init__(
        self,
        update: Callable[[Any], tuple[Mapping[str, Any], Any]],
        changed: Callable[[], Iterator[Any]],
        optimizers: Mapping[str, FlatOptimizer],
        device: Any,
    ) -> None:
        self._update, self._changed, self._optimizers = update, changed, optimizers
        self._device = device
        self._failed = torch.zeros((), device=device)
        self._steps: Any = None
        self._rates: _Rates = []
        #: By kind: what replays an update, and what comes of it.
        self._graphs: dict[Hashable, tuple[Callable[[], Any], _Made]] = {}

    def update(self, kind: Hashable, steps: Any, updates: int) -> Any:
        """Make an update; return the errors of its steps, `[N]` until the next one, or None.

        Args:
            kind: the same for updates that do the same, such as to teach the policy too.
            steps: a named tuple of tensors, nested or None, of the same shapes in all calls.
            updates: how many were made before, the time of schedules.
        """
        if self._steps is None:
            self._steps = type(steps)(*(_copied(part) for part in steps))
        torch._foreach_copy_(_tensors(self._steps), _tensors(steps))
        if kind not in self._graphs:
            self._graphs[kind] = self._recorded()
        replay, made = self._graphs[kind]
        for optimizer, rate in made.rates:
            optimizer.set_rate(at(rate, updates))
        replay()
        return made.errors

    def descend(self, optimizer: FlatOptimizer, loss: Any, rate: Number, max_norm: float) -> Any:
        """Take one step of an optimiser in an update; return the norm of its gradient."""
        self._rates.append((optimizer, rate))
        return optimizer.descend_unless(self._failed, loss, max_norm)

    def failed(self) -> bool:
        """Return whether a loss or gradient was not finite since the last call."""
        found = bool(self._failed)
        self._failed.zero_()
        return found

    def totals(self) -> Iterator[tuple[str, float]]:
        """Yield names and sums of what updates logged since the last call."""
        for _, made in self._graphs.values():
            yield from zip(made.names, made.total.tolist(), strict=True)
            made.total.zero_()

    def forget(self) -> None:
        """Record anew from now on, as tensors were replaced."""
        self._graphs.clear()

    # Recording ------------------------------------------------------------------

    def _recorded(self) -> tuple[Callable[[], Any], _Made]:
        """Record an update of the steps that are there; nothing is learned by that."""
        changed = [*self._changed(), self._failed]
        for optimizer in self._optimizers.values():
            optimizer.begin()
            changed += optimizer.changed_by_steps()
        before = [tensor.clone() for tensor in changed]
        total: list[Any] = []
        replay, made = captured(lambda: self._made(total), self._device)
        with torch.no_grad():
            torch._foreach_copy_(changed, before)
        made.total.zero_()
        return replay, made

    def _made(self, total: list[Any]) -> _Made:
        """Make an update; `total` is empty before the first call."""
        self._rates = []
        logged, errors = self._update(self._steps)
        numbers = torch.stack([*logged.values()])
        if not total:
            # In a call that is not recorded: each replay would begin with zeros.
            total.append(torch.zeros_like(numbers))
        total[0] += numbers
        return _Made(tuple(logged), total[0], errors, self._rates)


def captured(call: Callable[[], Any], device: Any) -> tuple[Callable[[], Any], Any]:
    """Return what replays the kernels of a call, and what the call returned.

    It is called a few times; what it has drawn from the generator of the GPU is put back.
    """
    cuda: Any = torch.cuda
    with cuda.device(device):
        generator = cuda.get_rng_state(device)
        # Not on the stream that is used by default, of which nothing can be recorded.
        stream = cuda.Stream()
        stream.wait_stream(cuda.current_stream())
        with cuda.stream(stream):
            for _ in range(_WARM):
                call()
        cuda.current_stream().wait_stream(stream)
        graph = cuda.CUDAGraph()
        # Other threads may go on: samplers ask networks on the same GPU.
        with cuda.graph(graph, capture_error_mode="thread_local"):
            found = call()
        cuda.set_rng_state(generator, device)

    def replay() -> None:
        # On the stream of this device, on which its inputs were written.
        with cuda.device(device):
            graph.replay()

    return replay, found


def _copied(part: Any) -> Any:
    return None if part is None else mapped(torch.clone, part)


def _tensors(steps: Any) -> list[Any]:
    return [leaf for part in steps if part is not None for leaf in leaves(part)]

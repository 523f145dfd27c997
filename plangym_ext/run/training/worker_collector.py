"""Collecting in worker processes, each with a network of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plangym_ext.learn.sampling.collected import Progress
from plangym_ext.planners.plans import Budget
from plangym_ext.run.training.parts import Parts
from plangym_ext.run.training.slot import Finished
from plangym_ext.workers.external_process import ExternalProcess
from plangym_ext.workers.protocol import Service


class WorkerCollector:
    """Shares the games out among processes; otherwise as `Collector`.

    A round begins when every worker has the weights of the day: they travel only if their
    version has changed. What is played in a slot does not depend on who plays it, but for
    the last bits of what the network says: those can change with the rows of a call.

    Args:
        parts: how env, network and planner are made, in the worker.
        network: whose weights are played.

    Raises:
        TypeError: a function of your own among the parts cannot be pickled.
    """

    def __init__(self, parts: Parts, network: Any) -> None:
        settings = parts.config.collector
        self._network, self._sent = network, -1
        slots = [
            tuple(range(worker, settings.num_envs, settings.n_workers))
            for worker in range(settings.n_workers)
        ]
        self._workers: list[ExternalProcess] = []
        try:
            for index, mine in enumerate(slots):
                service = Service(_Make(parts.alone(), mine))
                self._workers.append(ExternalProcess(service, index=index, wait=False))
            for worker in self._workers:
                worker.describe()
        except BaseException:
            self.close()
            raise

    def collect(
        self,
        moves: int,
        version: int = 0,
        on_move: Progress | None = None,  # noqa: ARG002 - workers do not say
    ) -> tuple[list[Finished], Budget]:
        """Play so many moves in every game; see `Collector.collect`.

        Args:
            moves: how many.
            version: of the weights; they travel if it has changed.
            on_move: not called.

        Raises:
            WorkerDied: a worker ended; the run can go on from its last checkpoint.
        """
        weights = None
        if version != self._sent:
            state: Mapping[str, Any] = self._network.state_dict()
            weights = {name: tensor.cpu().numpy() for name, tensor in state.items()}
        promises = [worker.call("collect", moves, version, weights) for worker in self._workers]
        self._sent = version
        answers = [promise() for promise in promises]
        finished = [one for found, _ in answers for one in found]
        # As one process would have met them.
        finished.sort(key=lambda one: (one.move, one.slot))
        return finished, sum((cost for _, cost in answers), Budget())

    def state_dict(self) -> dict[str, Any]:
        """Return all there is to save between two rounds."""
        states = [worker.call("state_dict")() for worker in self._workers]
        return {"games": [game for state in states for game in state["games"]]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on bit for bit; any number of workers can have saved it."""
        for worker in self._workers:
            worker.call("load_state_dict", dict(state))()

    def close(self) -> None:
        """End the workers."""
        for worker in self._workers:
            worker.begin_close()
        for worker in self._workers:
            worker.close()


class _Make:
    """Makes what a worker serves; a class, so that pickling it says what cannot be."""

    def __init__(self, parts: Parts, slots: tuple[int, ...]) -> None:
        self._parts, self._slots = parts, slots

    def __call__(self) -> _Served:
        return _Served(self._parts, self._slots)


class _Served:
    """A collector and its network, in the worker."""

    def __init__(self, parts: Parts, slots: tuple[int, ...]) -> None:
        from plangym_ext.learn.repeatable import fix_threads

        # The processors are shared out like the games.
        fix_threads(max(1, parts.config.threads // parts.config.collector.n_workers))
        env = parts.env()
        self._evaluator = parts.evaluator(parts.network(env))
        self._collector = parts.collector(env, self._evaluator, slots)

    def description(self) -> dict[str, Any]:
        """Return nothing: the parent has to know nothing."""
        return {}

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method of the collector."""
        if name == "collect":
            return self._collect(*args)
        return getattr(self._collector, name)(*args, **kwargs)

    def _collect(self, moves: int, version: int, weights: Any) -> Any:
        from plangym_ext.learn.tensor_file import tensors_of

        if weights is not None:
            self._evaluator.load(tensors_of(weights), version)
        return self._collector.collect(moves)

    def close(self) -> None:
        """Close the env."""
        self._collector.close()

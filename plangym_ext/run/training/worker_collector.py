"""Collecting in workers, each with a network of its own."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from plangym_ext.arrays import Array
from plangym_ext.core.pending import Pending
from plangym_ext.errors import WorkerDied
from plangym_ext.learn.sampling.collected import Collected, Progress
from plangym_ext.planners.plans import Budget
from plangym_ext.run.training.collector import collected, finished_of
from plangym_ext.run.training.parts import Parts
from plangym_ext.run.training.slot import SlotState, later_state, steps_of
from plangym_ext.workers.protocol import Service
from plangym_ext.workers.workplace import ServiceWorker, ThisMachine, Workplace

#: Seconds between two looks at how far a worker is.
_LOOK = 0.5
#: Deaths of one worker in one round after which the run is given up.
_MAX_DEATHS = 3


class Played(NamedTuple):
    """What a worker answers: its part of a round.

    Attributes:
        collected: the episodes that ended, and what they cost.
        changes: of its slots since the last round.
    """

    collected: Collected
    changes: list[SlotState]


class WorkerCollector:
    """Shares the games out among workers; otherwise as `Collector`.

    A round begins when every worker has the weights of the day: they travel only if their
    version has changed. What is played in a slot does not depend on who plays it, but for
    the last bits of what the network says: those can change with the rows of a call.

    The states of all games between two rounds are kept here. A worker that dies is replaced,
    and plays its part of the round again from these, with the same results; after a
    call of `collect` that failed, the next one plays the same round.

    Args:
        parts: how env, network and planner are made, in the worker.
        network: whose weights are played.
        workplace: where the workers run; None for processes of this machine. It stays open.
        n_workers: how many; None for as many as the settings say.

    Raises:
        TypeError: a function of your own among the parts cannot be pickled.
    """

    def __init__(
        self,
        parts: Parts,
        network: Any,
        workplace: Workplace | None = None,
        n_workers: int | None = None,
    ) -> None:
        settings = parts.config.collector
        count = settings.n_workers if n_workers is None else n_workers
        self._network = network
        self._workplace = place = ThisMachine() if workplace is None else workplace
        # Dealt out one by one, so that shares differ by one game at most.
        self._slots = [tuple(range(worker, settings.num_envs, count)) for worker in range(count)]
        #: State of each game after the last round, by slot; empty before the first.
        self._games: dict[int, SlotState] = {}
        #: The weights that each worker has, and those workers whose games are not these.
        self._versions: list[int | None] = [None] * count
        self._stale: set[int] = set()
        #: The newest weights that have travelled, and what workers are passed in their place.
        self._placed: tuple[int, Any] | None = None
        self._timeout = settings.timeout
        #: Moves of its games that each worker has played in this round.
        self._done = [Array((1,), np.int64, storage=place.storage) for _ in self._slots]
        self._workers: list[ServiceWorker] = []
        try:
            for index, (mine, done) in enumerate(zip(self._slots, self._done, strict=True)):
                service = Service(_Make(parts.alone(), mine, done, count), ("torch",))
                self._workers.append(place.worker(service, index))
                self._workers[-1].build()
            for worker in self._workers:
                worker.describe()
        except BaseException:
            self.close()
            raise

    def collect(self, n: int, version: int = 0, progress: Progress | None = None) -> Collected:
        """Play n moves in every game; see `Sampler.collect`.

        The weights travel if their version has changed; `progress` is called now and then.

        Raises:
            WorkerDied: a worker has died three times in this round.
            WorkerTimeout: a worker took too long over one move of its games, and was stopped.
        """
        try:
            # All are asked before any is waited for: they play side by side.
            asked = [self._ask(index, n, version) for index in range(len(self._workers))]
            answers = [
                self._answer(index, pending, n, version, progress)
                for index, pending in enumerate(asked)
            ]
        except BaseException:
            # Some have played this round; the round has not happened.
            self._stale.update(range(len(self._workers)))
            raise
        for change in [change for answer in answers for change in answer.changes]:
            self._games[change["slot"]] = later_state(self._games.get(change["slot"]), change)
        finished = [one for answer in answers for one in finished_of(answer.collected)]
        # As one process would have met them.
        finished.sort(key=lambda one: (one.move, one.slot))
        cost = sum((answer.collected.cost for answer in answers), Budget())
        return collected(finished, cost, version)

    def _ask(self, index: int, moves: int, version: int) -> Pending[Played] | None:
        """Have a worker play, from where it is or from the games kept here; None if it is dead."""
        weights = games = None
        # By the parent, before the worker begins: the last round's number would count as progress
        # of this one.
        self._done[index][0] = 0
        if version != self._versions[index]:
            weights = self._weights(version)
        # Only then: a worker's own games are where they should be, and states are large.
        if index in self._stale:
            games = [self._games[slot] for slot in self._slots[index] if self._games]
        try:
            return self._workers[index].call("collect", moves, version, weights, games)
        except WorkerDied:
            # Seen again when it is waited for, where it is replaced: the others are asked first.
            return None

    def _weights(self, version: int) -> Any:
        """Return the weights of the day, as workers are passed them: placed once a version."""
        if self._placed is None or self._placed[0] != version:
            state: Mapping[str, Any] = self._network.state_dict()
            weights = {name: tensor.cpu().numpy() for name, tensor in state.items()}
            # Once for all workers: on a cluster they fetch one copy from the object store.
            self._placed = version, self._workplace.placed(weights)
        return self._placed[1]

    def _answer(
        self,
        index: int,
        pending: Pending[Played] | None,
        moves: int,
        version: int,
        progress: Progress | None,
    ) -> Played:
        """Wait for what a worker has played; one that dies is replaced, and its successor asked."""
        worker = self._workers[index]
        for deaths_left in reversed(range(_MAX_DEATHS)):
            try:
                if pending is not None:
                    found = self._waited(index, pending, progress)
                    self._versions[index] = version
                    self._stale.discard(index)
                    return found
            except WorkerDied:
                pass
            if not deaths_left:
                break
            worker.restart()
            # The new process has the weights that it was made with, and no games.
            self._versions[index] = None
            self._stale.add(index)
            pending = self._ask(index, moves, version)
        raise worker.death()

    def _waited(self, index: int, pending: Pending[Played], progress: Progress | None) -> Played:
        """Wait for an answer as long as the worker's games go on."""
        limit = self._timeout
        reached, since = -1, time.monotonic()
        while not pending.poll(_LOOK if limit is None else min(_LOOK, limit)):
            done = self._moves(index)
            if done != reached:
                reached, since = done, time.monotonic()
            # A limit for one move, not for the round: searches differ in length, and more games
            # take longer.
            elif limit is not None and time.monotonic() - since >= limit:
                slots = ", ".join(map(str, self._slots[index]))
                doing = f" in a move of the games {slots}, after {done} moves of this round"
                raise self._workers[index].hung(limit, doing)
            if progress is not None:
                progress(sum(map(self._moves, range(len(self._workers)))))
        # It has come: this only unpacks it, or raises what it says.
        return pending.wait()

    def _moves(self, index: int) -> int:
        return self._workplace.steps_done(self._workers[index], self._done[index])

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """Process ids of the workers now, on whichever machine."""
        return tuple(map(self._workplace.pid, self._workers))

    def state_dict(self) -> dict[str, Any]:
        """Return all there is to save between two rounds; its arrays are not to be written to."""
        return {"games": [self._games[slot] for slot in sorted(self._games)]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on bit for bit; any number of workers can have saved it."""
        self._games = {game["slot"]: dict(game) for game in state["games"]}
        self._stale.update(range(len(self._workers)))

    def close(self) -> None:
        """End the workers."""
        for worker in self._workers:
            worker.begin_close()
        for worker in self._workers:
            worker.close()
        self._placed = None
        for memory in self._done:
            memory.close()


class _Make:
    """Makes what a worker serves; a class, so that pickling it says what cannot be."""

    def __init__(self, parts: Parts, slots: tuple[int, ...], done: Array, n_workers: int) -> None:
        self._parts, self._slots, self._done, self._count = parts, slots, done, n_workers

    def __call__(self) -> _Served:
        # The processors are shared out like the games.
        threads = max(1, self._parts.config.threads // self._count)
        return _Served(self._parts, self._slots, self._done, threads)


class _Served:
    """A collector and its network, in the worker."""

    def __init__(self, parts: Parts, slots: tuple[int, ...], done: Array, threads: int) -> None:
        from plangym_ext.learn.repeatable import fix_threads

        fix_threads(threads)
        env = parts.env()
        self._evaluator = parts.evaluator(parts.network(env))
        self._collector = parts.collector(env, self._evaluator, slots)
        self._done = done.to_ndarray(copy=False)
        #: Episode and steps of each slot that the parent has.
        self._sent: dict[int, tuple[int, int]] = {}

    @property
    def steps_done(self) -> int:
        """Moves that were played in this round, in all its games."""
        return int(self._done[0])

    def description(self) -> dict[str, Any]:
        """Return nothing: the parent has to know nothing."""
        return {}

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Played:
        """Play; there is no other call."""
        assert name == "collect", name
        return self._collect(*args, **kwargs)

    def _collect(
        self, moves: int, version: int, weights: Any, games: Sequence[SlotState] | None
    ) -> Played:
        """Play the worker's part of a round, from some games if they are given."""
        from plangym_ext.learn.tensor_file import tensors_of

        self._done[0] = 0
        if games is not None:
            self._collector.load_state_dict({"games": games})
            self._sent = {game["slot"]: (game["episode"], steps_of(game)) for game in games}
        if weights is not None:
            self._evaluator.load(tensors_of(weights), version)
        found = self._collector.collect(moves, version, self._told)
        changes = self._collector.changes(self._sent)
        self._sent = {game["slot"]: (game["episode"], steps_of(game)) for game in changes}
        return Played(found, changes)

    def _told(self, moves: int) -> None:
        self._done[0] = moves

    def close(self) -> None:
        """Close the env."""
        self._collector.close()

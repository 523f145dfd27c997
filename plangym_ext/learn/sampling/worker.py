"""WorkerSampler: sampler whose actors run in worker processes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from plangym_ext.arrays import Array, ArrayDict
from plangym_ext.core.numbers import at_least, finite_between, seconds_or_none
from plangym_ext.core.pending import Pending
from plangym_ext.errors import IncompleteState, InvalidOption, WorkerDied
from plangym_ext.learn.agents.agent import Agent
from plangym_ext.learn.sampling.actors.columns import tells_masks
from plangym_ext.learn.sampling.collected import Collected, Progress
from plangym_ext.learn.sampling.episode_statistics import merged_episodes
from plangym_ext.learn.sampling.options import SamplerOptions, check_vector_env, no_opponents
from plangym_ext.learn.sampling.past import (
    Past,
    PastSampler,
    collected,
    joined_states,
    split_state,
    whole_fragment,
)
from plangym_ext.learn.sampling.remote.exchange import Exchange, SentExchange, SharedExchange
from plangym_ext.learn.sampling.remote.remote_actor import MakeVenv, RemoteActorMaker
from plangym_ext.learn.sampling.remote.sent_agent import SentAgent
from plangym_ext.learn.sampling.tree import array_bytes, build_sample_tree, copy_tree, tree_memory
from plangym_ext.workers.limits import SLOW_LOOK, start_limit
from plangym_ext.workers.protocol import NETWORKS, Service
from plangym_ext.workers.workplace import ServiceWorker, Workplace


class _Flight(NamedTuple):
    """A call of all workers whose answers are to come."""

    name: str
    args: tuple[Any, ...]
    promises: list[Pending[Any] | None]  # None: the worker had ended

    @property
    def version(self) -> int:
        """Version of the weights of a fragment."""
        return int(self.args[0])


class WorkerSampler(PastSampler):
    """Play in worker processes, each with some of the envs and a copy of the agent.

    Weights are in one block of shared memory, where workers read them when a fragment begins;
    what is played is written by the workers into the shared sample tree. On a cluster, weights
    are placed where all machines can get them, and what is played is sent. A worker that dies
    is replaced and its fragment played again, from the states that were kept when it began.

    Args:
        make_venv: returns the vector env of some rows, given their numbers as a range; called
            in each worker, and here for one row whose spaces are looked at. It travels to the
            workers by cloudpickle.
        agent: travels too; what this one learns is played from the next fragment on. Of one of
            your own every attribute goes that holds other numbers than before.
        num_steps: T.
        num_envs: B; workers have adjoining rows each.
        n_workers: processes; None for as many as there are processors.
        timeout: seconds that one step of a worker's rows may take before it counts as hung; a
            worker may take as long to start, and two minutes at least.
        threads: of torch, in each worker.
        ahead: whether `collect` begins the next fragment before it returns, so that workers play
            while something is learned from this one. They are one fragment ahead, never more.
            Weights are written while no fragment is played, so no worker reads half of them, and
            play does not depend on timing.
        lead: with `ahead`, the largest share of the steps since learning began (since `collect`
            was given a version above 0) that may be played and not yet taken in. A fragment is
            begun ahead only if it is no more than that: 0.01 is from the hundredth on.
        workplace: where the workers run; None for processes of this machine. It stays open.
        **options: of `SamplerOptions`.

    Attributes:
        num_steps, num_envs: T and B.
        tree: the memory of a fragment, shared with worker processes but for `ahead`; see
            `build_sample_tree`.

    Raises:
        WrongKind, InvalidOption, InvalidAnswer: as `SerialSampler`.
        WrongKind: what the agent learns cannot be sent; the message says what holds it, and what
            to do. `collect` raises it of what the agent has come to hold since then.
        Exception: what `make_venv` raised.
    """

    def __init__(
        self,
        make_venv: MakeVenv,
        agent: Agent,
        num_steps: int,
        num_envs: int,
        *,
        n_workers: int | None = None,
        timeout: float | None = 300.0,
        threads: int = 1,
        ahead: bool = False,
        lead: float = 1.0,
        workplace: Workplace | None = None,
        **options: Any,
    ) -> None:
        where = "WorkerSampler"
        self.num_steps = at_least(f"{where}: num_steps", num_steps, 1)
        self.num_envs = at_least(f"{where}: num_envs", num_envs, 1)
        self._workplace = place = Workplace() if workplace is None else workplace
        wanted = place.default_workers() if n_workers is None else n_workers
        # No worker is without rows.
        count = min(at_least(f"{where}: n_workers", wanted, 1), num_envs)
        self._options, self._agent = SamplerOptions(**options), agent
        no_opponents("WorkerSampler", self._options)
        self._timeout = seconds_or_none("WorkerSampler: timeout", timeout)
        self._ranges = [
            range(int(part[0]), int(part[-1]) + 1)
            for part in np.array_split(np.arange(num_envs), count)
        ]
        #: Where the workers write, and where the caller reads. What is sent is written when the
        #: caller asks for it.
        self._played: ArrayDict = self._built_tree(make_venv, place.storage)
        both = ahead and place.storage == "shared"
        self.tree = self._built_tree(make_venv, "local") if both else self._played
        self._ahead = ahead
        self._lead = finite_between(f"{where}: lead", lead, 0.0, 1.0)
        #: Fragments that were taken in since learning began.
        self._taken = 0
        #: The fragment that is being played.
        self._flight: _Flight | None = None
        #: Version of the weights of the fragment that was begun ahead and is not taken in yet;
        #: it may be in flight, or have failed.
        self._owed: int | None = None
        self._progress = [Array((1,), np.int64, storage=place.storage) for _ in self._ranges]
        #: After the example step of `_built_tree`, in which layers may have been made.
        self._sent = SentAgent(agent, num_envs, where)
        self._exchange = self._made_exchange()
        self._past = Past.of(self._options)
        #: Where the rows of every worker were when the last fragment ended; None at first.
        self._states: list[Mapping[str, Any]] | None = None
        #: Workers whose rows may be elsewhere.
        self._away: set[int] = set()
        self._workers: list[ServiceWorker] = []
        try:
            self._start(make_venv, threads)
        except BaseException:
            self.close()
            raise

    def _start(self, make_venv: MakeVenv, threads: int) -> None:
        """Start the workers side by side."""
        for index, rows in enumerate(self._ranges):
            given = make_venv, self._agent, self._sent.tensors, rows, self._options, threads
            maker = RemoteActorMaker(*given)
            service = Service(maker, (*NETWORKS, __name__))
            self._workers.append(self._workplace.worker(service, index))
            self._workers[-1].start_timeout = start_limit(self._timeout)
            self._workers[-1].build()
        for index in range(len(self._workers)):
            self._open(index)

    def _made_exchange(self) -> Exchange:
        if self._workplace.storage == "shared":
            return SharedExchange(self._played, self._sent.weights(), self._progress)
        return SentExchange(self._played, self._ranges, self._workplace)

    def _built_tree(self, make_venv: MakeVenv, storage: Literal["local", "shared"]) -> ArrayDict:
        venv = make_venv(range(1))
        try:
            check_vector_env(venv, "WorkerSampler", self._options.env_info)
            size = self.num_steps, self.num_envs
            options = self._options
            return build_sample_tree(
                venv,
                self._agent,
                *size,
                storage=storage,
                env_info=options.env_info,
                action_mask=options.action_mask and tells_masks(venv),
            )
        finally:
            if hasattr(venv, "close"):
                venv.close()

    def _open(self, index: int) -> None:
        """Add a new worker."""
        worker, rows = self._workers[index], self._ranges[index]
        made = worker.describe()["num_envs"]
        if made != len(rows):
            raise InvalidOption(
                f"WorkerSampler: make_venv({rows}) must return a vector env of {len(rows)} envs; "
                f"it has {made}."
            )
        self._exchange.open(worker, index)
        if (changes := self._sent.whole()) is not None:
            worker.call("take", changes)()

    # Playing ----------------------------------------------------------------------------

    def collect(
        self, n: int | None = None, version: int = 0, progress: Progress | None = None
    ) -> Collected:
        """Play T steps in every env; see `SerialSampler.collect`.

        Args:
            n: T, if it is given.
            version: of the weights, which are those of the agent now.
            progress: called now and then with how many steps of all envs are done.

        Raises:
            WorkerTimeout: a worker took too long over one step, and was stopped; the next
                call plays the fragment again, with a new one.
            WorkerDied: a worker died again when its fragment was played again.
        """
        whole_fragment("WorkerSampler", n, self.num_steps)
        began = time.perf_counter()
        if self._states is None:  # rows can only be brought back to where they have begun
            self._states, self._away = self._ask("state"), set()
        flight = self._flight or self._begun(version)
        # One that fails is begun again by the next call.
        self._flight = None
        answers = self._answers(flight, progress)
        tables, states, restored = zip(*(answer[:3] for answer in answers), strict=True)
        episodes = merged_episodes(list(tables))
        for index, answer in enumerate(answers):
            self._exchange.take(index, answer[3:])
        # At once, so that an interrupt finds the fragment played or not.
        past = self._past.after(episodes, self._played)
        self._states, self._past, self._away = list(states), past, set()
        self._owed = None
        self._taken += version > 0
        # Before the next fragment is begun, which writes over it.
        if self.tree is not self._played:
            copy_tree(self._played, self.tree)
        if self._ahead and (self._taken + 1) * self._lead >= 1:
            self._flight, self._owed = self._fly(version), version
        return collected(self.tree, episodes, flight.version, began, sum(restored))

    def _begun(self, version: int) -> _Flight:
        """Begin a fragment; one that was begun before and failed with the weights that it had."""
        if self._owed is None:
            return self._fly(version)
        return self._fly(self._owed, self._exchange.given())

    def _fly(
        self, version: int, weights: Mapping[str, Any] | None = None, changes: bytes | None = None
    ) -> _Flight:
        """Begin a fragment in all workers, with the agent's weights or earlier ones."""
        if weights is None:
            weights = self._sent.weights()
            changes = self._sent.changes(weights)
        given = self._exchange.give(weights)
        for one in self._progress:
            one[0] = 0
        return self._begin_all(self._exchange.play, version, self._past.table(), changes, *given)

    def _ask(self, name: str, *args: Any) -> list[Any]:
        """Call a method of every worker."""
        return self._answers(self._begin_all(name, *args))

    def _begin_all(self, name: str, *args: Any) -> _Flight:
        promises: list[Pending[Any] | None] = []
        for index in range(len(self._workers)):
            try:
                promises.append(self._begin(index, name, args))
            except WorkerDied:  # it ended since the last call
                promises.append(None)
        return _Flight(name, args, promises)

    def _answers(self, flight: _Flight, progress: Progress | None = None) -> list[Any]:
        """Wait for all workers; those that died are replaced and asked again, once."""
        answers = []
        for index, promise in enumerate(flight.promises):
            try:
                if promise is None:
                    raise self._workers[index].death()
                answers.append(self._wait(index, promise, progress))
            except WorkerDied:
                self._replace(index)
                again = self._begin(index, flight.name, flight.args)
                answers.append(self._wait(index, again, progress))
        return answers

    def _begin(self, index: int, name: str, args: tuple[Any, ...]) -> Pending[Any]:
        worker = self._workers[index]
        if worker.fallen is not None:
            self._replace(index)
        state = None
        if self._states is not None and index in self._away:
            state = self._states[index]
        # Whatever comes of the call: from here on the rows may have moved.
        self._away.add(index)
        return worker.call(name, state, *args)

    def _replace(self, index: int) -> None:
        self._workers[index].restart()
        self._away.add(index)
        self._open(index)

    def _wait(self, index: int, promise: Pending[Any], progress: Progress | None) -> Any:
        """Wait for an answer as long as the worker's steps go on."""
        limit = self._timeout
        reached, since = -1, time.monotonic()
        # By steps, not by the fragment: a worker is hung if it takes none for so long.
        while not promise.poll(SLOW_LOOK if limit is None else min(SLOW_LOOK, limit)):
            now = self._steps_done(index)
            if now != reached:
                reached, since = now, time.monotonic()
            elif limit is not None and time.monotonic() - since >= limit:
                rows = self._ranges[index]
                doing = f" in step {now} of rows {rows.start} to {rows.stop - 1}"
                raise self._workers[index].hung(limit, doing)
            if progress is not None:
                done = enumerate(self._ranges)
                progress(sum(self._steps_done(i) * len(rows) for i, rows in done))
        return promise.wait()

    def _steps_done(self, index: int) -> int:
        return self._workplace.steps_done(self._workers[index], self._progress[index])

    def memory(self) -> dict[str, int]:
        """Return the memory use in bytes by part; see `SerialSampler.memory`.

        Besides there are "weights" and "progress"; "envs" are the workers' own, of all of them.
        Everything else is shared, and there once.
        """
        envs = sum(worker.describe()["nbytes"] for worker in self._workers)
        progress = sum(map(array_bytes, self._progress))
        more = {"weights": self._exchange.nbytes, "progress": progress, "envs": envs}
        return tree_memory(self.tree) | more

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """Process ids of the present workers."""
        return tuple(map(self._workplace.pid, self._workers))

    # Saving and life --------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the complete state between two calls of `collect`; see `SerialSampler`.

        A sampler that continues from it plays a fragment in progress again, with its weights.

        Raises:
            IncompleteState: it has begun where the envs' states were not kept.
            WrongKind: it is played with an agent that holds what cannot be saved without a pickle.
        """
        known = {**self._past.state_dict(), "taken": self._taken}
        if self._owed is None or self._states is None:
            # Workers are where these states say: nothing is brought back before they go on.
            self._states, self._away = self._ask("state"), set()
            return {"rows": joined_states(self._states), **known}
        if not self._options.recover:
            raise IncompleteState(
                "WorkerSampler.state_dict: workers play the next fragment, and the state at its "
                "beginning was not kept. Make the sampler with recover=True, or ahead=False."
            )
        flight = {
            "version": self._owed,
            "weights": self._exchange.given(),
            "besides": self._sent.besides(),
        }
        return {"rows": joined_states(self._states), **known, "flight": flight}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a sampler's `state_dict`, bit for bit."""
        self._states = [*split_state(state["rows"], self._ranges)]
        self._away = set(range(len(self._workers)))
        self._past = Past.of(self._options, state)
        self._taken = int(state.get("taken", 0))
        # What workers still play is not waited for: they are brought back before they go on.
        self._flight = self._owed = None
        if "flight" in state and self._ahead:
            flight = state["flight"]
            version = int(flight["version"])
            changes = self._sent.as_of(flight.get("besides", {}))
            self._flight = self._fly(version, flight["weights"], changes)
            self._owed = version

    def close(self) -> None:
        """End the workers; safe to call twice. The tree stays valid."""
        for worker in self._workers:
            worker.begin_close()
        for worker in self._workers:
            worker.close()
        self._exchange.close()
        for memory in self._progress:
            memory.close()

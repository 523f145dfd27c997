"""Actors in worker processes, each with envs and an agent of its own."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from plangym_ext.arrays import Array, ArrayDict
from plangym_ext.arrays.closing import Closing
from plangym_ext.core.numbers import at_least
from plangym_ext.core.pending import Pending
from plangym_ext.errors import InvalidOption, WorkerDied
from plangym_ext.learn.agents.agent import Agent
from plangym_ext.learn.sampling.collected import Collected, Progress
from plangym_ext.learn.sampling.episode_statistics import merged_episodes
from plangym_ext.learn.sampling.fitting import check_vector_env
from plangym_ext.learn.sampling.fragment import collected, whole_fragment
from plangym_ext.learn.sampling.legal_actions import tells_masks
from plangym_ext.learn.sampling.memory import array_bytes, tree_memory
from plangym_ext.learn.sampling.options import SamplerOptions
from plangym_ext.learn.sampling.past import Past
from plangym_ext.learn.sampling.remote_actor import MakeVenv, RemoteActorMaker
from plangym_ext.learn.sampling.sampler_state import joined_states, split_state
from plangym_ext.learn.sampling.starts import Starts
from plangym_ext.learn.sampling.tree import build_sample_tree, copy_tree
from plangym_ext.learn.sampling.weights import SharedWeights
from plangym_ext.workers.processors import default_n_workers
from plangym_ext.workers.protocol import Service
from plangym_ext.workers.worker_handle import WorkerHandle

#: Seconds between two looks at how far workers are.
_LOOK = 0.5


class _Flight(NamedTuple):
    """A call of all workers whose answers are to come."""

    name: str
    args: tuple[Any, ...]
    promises: list[Pending[Any] | None]  # None: the worker had ended

    @property
    def version(self) -> int:
        """Version of the weights of a fragment."""
        return int(self.args[0])


class WorkerSampler(Closing):
    """Play in worker processes, each with some of the envs and a copy of the agent.

    Weights are in one block of shared memory, where workers read them when a fragment begins;
    what is played is written by the workers into the shared sample tree. A worker that dies is
    replaced and its fragment played again, from the states that were kept when it began.

    Args:
        make_venv: returns the vector env of some rows, given their numbers as a range; called
            in each worker, and here for one row whose spaces are looked at. It travels to the
            workers by cloudpickle.
        agent: travels too; what this one learns is played from the next fragment on.
        num_steps: T.
        num_envs: B; workers have adjoining rows each.
        n_workers: processes; None for as many as there are processors.
        timeout: seconds that one step of a worker's rows may take before it counts as hung.
        threads: of torch, in each worker.
        ahead: whether `collect` begins the next fragment before it returns, so that workers play
            while something is learned from this one. They are one fragment ahead, never more.
            Weights are written when none is being played, so none are read half written, and what
            is played does not depend on how fast anything is.
        **options: of `SamplerOptions`.

    Attributes:
        num_steps, num_envs: T and B.
        tree: the memory of a fragment, shared but for `ahead`; see `build_sample_tree`.

    Raises:
        WrongKind, InvalidOption, InvalidAnswer: as `SerialSampler`.
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
        **options: Any,
    ) -> None:
        where = "WorkerSampler"
        self.num_steps = at_least(f"{where}: num_steps", num_steps, 1)
        self.num_envs = at_least(f"{where}: num_envs", num_envs, 1)
        wanted = default_n_workers() if n_workers is None else n_workers
        count = min(at_least(f"{where}: n_workers", wanted, 1), num_envs)
        self._options, self._agent, self._timeout = SamplerOptions(**options), agent, timeout
        self._ranges = [
            range(int(part[0]), int(part[-1]) + 1)
            for part in np.array_split(np.arange(num_envs), count)
        ]
        #: Where the workers write, and where the caller reads.
        self._played: ArrayDict = self._built_tree(make_venv, "shared")
        self.tree = self._built_tree(make_venv, "local") if ahead else self._played
        self._ahead = ahead
        #: The fragment that is being played.
        self._flight: _Flight | None = None
        self._weights = SharedWeights(agent.state_dict())
        self._progress = [Array((1,), np.int64, storage="shared") for _ in self._ranges]
        self._past = Past.of(self._options)
        #: Where the rows of every worker were when the last fragment ended; None at first.
        self._states: list[Mapping[str, Any]] | None = None
        #: Workers whose rows may be elsewhere.
        self._away: set[int] = set()
        self._workers: list[WorkerHandle] = []
        try:
            for index, rows in enumerate(self._ranges):
                maker = RemoteActorMaker(make_venv, agent, rows, self._options, threads)
                self._workers.append(WorkerHandle(Service(maker, ("torch",)), index=index))
                self._workers[-1].build()
            for index in range(count):
                self._open(index)
        except BaseException:
            self.close()
            raise

    def _built_tree(self, make_venv: MakeVenv, storage: Literal["local", "shared"]) -> ArrayDict:
        venv = make_venv(range(1))
        try:
            check_vector_env(venv, "WorkerSampler")
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
        """Have a new worker use the shared memory."""
        worker, rows = self._workers[index], self._ranges[index]
        made = worker.describe()["num_envs"]
        if made != len(rows):
            raise InvalidOption(
                f"WorkerSampler: make_venv({rows}) must return a vector env of {len(rows)} envs; "
                f"it has {made}."
            )
        worker.call("open", self._played, self._weights, self._progress[index])()

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
        flight = self._flight or self._fly(version, self._agent.state_dict())
        # One that fails is begun again by the next call.
        self._flight = None
        tables, states, restored = zip(*self._answers(flight, progress), strict=True)
        episodes = merged_episodes(list(tables))
        # At once, so that an interrupt finds the fragment played or not.
        self._states, self._past, self._away = list(states), self._past.after(episodes), set()
        if self._ahead:
            copy_tree(self._played, self.tree)
            self._flight = self._fly(version, self._agent.state_dict())
        return collected(self.tree, episodes, flight.version, began, sum(restored))

    def _fly(self, version: int, weights: Mapping[str, Any]) -> _Flight:
        """Have all workers begin a fragment."""
        self._weights.write(weights)
        for one in self._progress:
            one[0] = 0
        return self._begin_all("collect", version, self._past.table())

    def _ask(self, name: str, *args: Any) -> list[Any]:
        """Call a method of every worker."""
        return self._answers(self._begin_all(name, *args))

    def _begin_all(self, name: str, *args: Any) -> _Flight:
        """Begin a call of every worker."""
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
        while not promise.poll(_LOOK if limit is None else min(_LOOK, limit)):
            now = int(np.asarray(self._progress[index])[0])
            if now != reached:
                reached, since = now, time.monotonic()
            elif limit is not None and time.monotonic() - since >= limit:
                rows = self._ranges[index]
                doing = f" in step {now} of rows {rows.start} to {rows.stop - 1}"
                raise self._workers[index].hung(limit, doing)
            if progress is not None:
                done = zip(self._progress, self._ranges, strict=True)
                progress(sum(int(np.asarray(one)[0]) * len(rows) for one, rows in done))
        return promise.wait()

    @property
    def starts(self) -> Starts | None:
        """What the next fragment's episodes begin from; None: they begin by a reset."""
        return self._past.starts

    @property
    def statistics(self) -> dict[str, float]:
        """Means over the last episodes, by column; empty before one has ended."""
        return self._past.window.means()

    def memory(self) -> dict[str, int]:
        """Return the bytes that are kept, by part; see `SerialSampler.memory`.

        Besides there are "weights" and "progress"; "envs" are the workers' own, of all of them.
        Everything else is shared, and there once.
        """
        envs = sum(worker.describe()["nbytes"] for worker in self._workers)
        progress = sum(map(array_bytes, self._progress))
        more = {"weights": self._weights.nbytes, "progress": progress, "envs": envs}
        return tree_memory(self.tree) | more

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """Process ids of the workers now."""
        return tuple(worker.process.pid for worker in self._workers)

    # Saving and life --------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return all there is to save between two calls of `collect`; see `SerialSampler`.

        A fragment that is being played is played again by what goes on from it, with its weights.
        """
        if self._flight is None or self._states is None:
            rows = joined_states(self._ask("state"))
            return {"rows": rows, **self._past.state_dict()}
        flight = {"version": self._flight.version, "weights": self._weights.read()}
        rows = joined_states(self._states)
        return {"rows": rows, **self._past.state_dict(), "flight": flight}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what a sampler's `state_dict` returned, bit for bit."""
        self._states = [*split_state(state["rows"], self._ranges)]
        self._away = set(range(len(self._workers)))
        self._past = Past.of(self._options, state)
        # What workers still play is not waited for: they are brought back before they go on.
        self._flight = None
        if "flight" in state and self._ahead:
            flight = state["flight"]
            self._flight = self._fly(int(flight["version"]), flight["weights"])

    def close(self) -> None:
        """End the workers; safe to call twice. The tree stays good."""
        for worker in self._workers:
            worker.begin_close()
        for worker in self._workers:
            worker.close()
        self._weights.close()
        for memory in self._progress:
            memory.close()

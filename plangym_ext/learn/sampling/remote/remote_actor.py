"""RemoteActor: the service that plays fragments in a sampler's worker process."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays import Array, ArrayDict
from plangym_ext.learn.agents.agent import Agent
from plangym_ext.learn.sampling.actors.actor import Actor
from plangym_ext.learn.sampling.actors.venv_rows import venv_rows
from plangym_ext.learn.sampling.options import SamplerOptions, check_vector_env
from plangym_ext.learn.sampling.remote.exchange import SentColumns, SharedWeights
from plangym_ext.learn.sampling.remote.sent_agent import AgentCopy
from plangym_ext.learn.sampling.tree import build_sample_tree
from plangym_ext.vector.vector_env import PlanVectorEnv

#: Makes the vector env of some rows.
MakeVenv = Callable[[range], PlanVectorEnv]


@dataclass(frozen=True)
class RemoteActorMaker:
    """Makes the worker's service in the worker.

    Attributes:
        make_venv: of the sampler.
        agent: of which the worker has a copy.
        tensors: names of tensors in its `state_dict`.
        rows: of the worker.
        options: of the sampler.
        threads: of torch, if the agent has brought it.
    """

    make_venv: MakeVenv
    agent: Agent
    tensors: frozenset[str]
    rows: range
    options: SamplerOptions
    threads: int

    def __call__(self) -> RemoteActor:
        if "torch" in sys.modules:
            from plangym_ext.learn.repeatable import fix_threads

            # Sums over threads are added in another order: same bytes need the same number
            # everywhere.
            fix_threads(self.threads)
        return RemoteActor(self)


class RemoteActor:
    """Plays fragments of some rows, into shared memory or to be sent; see `Service`."""

    def __init__(self, maker: RemoteActorMaker) -> None:
        self._maker = maker
        # Asked for before there is shared memory to write it to, too.
        self._progress: npt.NDArray[Any] = np.zeros(1, np.int64)
        self._copy = AgentCopy(maker.agent, maker.tensors)
        self._venv = maker.make_venv(maker.rows)
        check_vector_env(self._venv, "WorkerSampler", maker.options.env_info)

    def description(self) -> dict[str, Any]:
        """Return the number of rows, and the bytes of their memory."""
        return {"num_envs": self._venv.num_envs, "nbytes": self._venv.nbytes}

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method below."""
        return getattr(self, f"_{name}")(*args, **kwargs)

    @property
    def steps_done(self) -> int:
        """Number of steps taken in the present fragment."""
        return int(self._progress[0])

    def _open(self, tree: ArrayDict, weights: SharedWeights, progress: Array) -> None:
        """Use shared memory: the tree, the weights, and `[1]` int64 for how far this one is."""
        maker = self._maker
        self._use(tree, maker.rows, maker.options, progress)
        self._weights = weights

    def _open_own(self, num_steps: int, action_mask: bool) -> None:
        """Use memory of its own, of which the columns are sent: it is on another machine."""
        maker, options, count = self._maker, self._maker.options, len(self._maker.rows)
        tree = build_sample_tree(
            self._venv,
            maker.agent,
            num_steps,
            count,
            env_info=options.env_info,
            action_mask=action_mask,
        )
        # Its rows are columns 0 to b of the tree, and draw as what they are of all.
        numbered = dataclasses.replace(options, first_row=options.first_row + maker.rows.start)
        self._use(tree, range(count), numbered, Array((1,), np.int64))
        self._sent = SentColumns(tree)

    def _use(
        self, tree: ArrayDict, columns: range, options: SamplerOptions, progress: Array
    ) -> None:
        self._actor = Actor(venv_rows(self._venv), self._maker.agent, tree, columns, options)
        self._num_steps = tree["reward"].shape[0]
        self._progress = progress.to_ndarray(copy=False)

    def _bring(self, state: Mapping[str, Any] | None) -> None:
        if state is not None:
            self._actor.load_state_dict(state)

    def _take(self, changes: bytes) -> None:
        """Take over what the agent has learned since it was sent, as the one before had."""
        self._copy.take(changes)

    def _collect(
        self,
        state: Mapping[str, Any] | None,
        version: int,
        starts: npt.NDArray[Any] | None,
        changes: bytes | None,
    ) -> Any:
        """Play a fragment with the weights that are in shared memory now.

        Args:
            state: where to begin, if not where the last one has ended.
            version: of the weights.
            starts: `Starts.table` of the stored states that episodes begin from.
            changes: of the agent, besides weights; see `SentAgent.changes`.

        Returns:
            The table of the episodes that ended, where the rows are now, and how many episodes
            began from a stored state.
        """
        return self._played(state, version, starts, changes, self._weights.read())

    def _send(
        self,
        state: Mapping[str, Any] | None,
        version: int,
        starts: npt.NDArray[Any] | None,
        changes: bytes | None,
        weights: Mapping[str, Any],
    ) -> Any:
        """Play a fragment with these weights; return as `_collect`, and the columns."""
        table, after, restored = self._played(state, version, starts, changes, weights)
        # Rows of its own tree begin at 0.
        table["row"] += self._maker.rows.start
        return table, after, restored, self._sent.taken()

    def _played(
        self,
        state: Mapping[str, Any] | None,
        version: int,
        starts: npt.NDArray[Any] | None,
        changes: bytes | None,
        weights: Mapping[str, Any],
    ) -> Any:
        # Before anything can fail: the sampler reads it to say at which step a worker was.
        self._progress[0] = 0
        self._bring(state)
        agent, actor = self._maker.agent, self._actor
        # After `_bring`, and every fragment: a worker that replaced another one has none yet.
        self._copy.load(weights)
        self._copy.take(changes)
        agent.set_mode("sample")
        actor.begin_fragment(version, starts)
        for t in range(self._num_steps):
            actor.begin(t)
            actor.finish(t)
            # Without a lock: this process alone writes it, and either number will do to its reader.
            self._progress[0] += 1
        table = actor.end_fragment()
        return table, actor.state_dict(envs=self._maker.options.recover), actor.restarts.restored

    def _state(self, state: Mapping[str, Any] | None) -> Any:
        """Return where the rows are, envs included."""
        self._bring(state)
        return self._actor.state_dict()

    def close(self) -> None:
        """Close the envs."""
        self._venv.close()

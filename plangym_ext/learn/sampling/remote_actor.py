"""What a worker of a `WorkerSampler` serves: an actor with envs and an agent of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from plangym_ext.arrays import Array, ArrayDict
from plangym_ext.learn.agents.agent import Agent
from plangym_ext.learn.sampling.actor import Actor
from plangym_ext.learn.sampling.fitting import check_vector_env
from plangym_ext.learn.sampling.options import SamplerOptions
from plangym_ext.learn.sampling.venv_rows import VenvRows
from plangym_ext.learn.sampling.weights import SharedWeights
from plangym_ext.vector.vector_env import PlanVectorEnv

#: Makes the vector env of some rows.
MakeVenv = Callable[[range], PlanVectorEnv]


@dataclass(frozen=True)
class RemoteActorMaker:
    """Makes what a worker serves, there.

    Attributes:
        make_venv: of the sampler.
        agent: of which the worker has a copy.
        rows: of the worker.
        options: of the sampler.
        threads: of torch, if the agent has brought it.
    """

    make_venv: MakeVenv
    agent: Agent
    rows: range
    options: SamplerOptions
    threads: int

    def __call__(self) -> RemoteActor:
        """Make it."""
        if "torch" in sys.modules:
            from plangym_ext.learn.repeatable import fix_threads

            fix_threads(self.threads)
        return RemoteActor(self)


class RemoteActor:
    """Plays fragments of some rows into shared memory; see `Service`."""

    def __init__(self, maker: RemoteActorMaker) -> None:
        self._maker = maker
        self._venv = maker.make_venv(maker.rows)
        check_vector_env(self._venv, "WorkerSampler")

    def description(self) -> dict[str, Any]:
        """Return how many rows there are, and the bytes that they write to."""
        return {"num_envs": self._venv.num_envs, "nbytes": self._venv.nbytes}

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method below."""
        return getattr(self, f"_{name}")(*args, **kwargs)

    def _open(self, tree: ArrayDict, weights: SharedWeights, progress: Array) -> None:
        """Use shared memory: the tree, the weights, and `[1]` int64 for how far this one is."""
        maker = self._maker
        self._actor = Actor(VenvRows(self._venv), maker.agent, tree, maker.rows, maker.options)
        self._num_steps, self._weights = tree["reward"].shape[0], weights
        self._progress: npt.NDArray[Any] = progress.to_ndarray(copy=False)

    def _bring(self, state: Mapping[str, Any] | None) -> None:
        if state is not None:
            self._actor.load_state_dict(state)

    def _collect(
        self, state: Mapping[str, Any] | None, version: int, starts: npt.NDArray[Any] | None
    ) -> Any:
        """Play a fragment with the weights that are in shared memory now.

        Args:
            state: where to begin, if not where the last one has ended.
            version: of the weights.
            starts: `Starts.table` of the stored states that episodes begin from.

        Returns:
            The table of the episodes that ended, where the rows are now, and how many episodes
            began from a stored state.
        """
        self._bring(state)
        agent, actor = self._maker.agent, self._actor
        agent.load_state_dict(self._weights.read())
        agent.set_mode("sample")
        actor.begin_fragment(version, starts)
        for t in range(self._num_steps):
            actor.begin(t)
            actor.finish(t)
            self._progress[0] += 1
        table = actor.end_fragment()
        return table, actor.state_dict(envs=self._maker.options.recover), actor.restored

    def _state(self, state: Mapping[str, Any] | None) -> Any:
        """Return where the rows are, envs included."""
        self._bring(state)
        return self._actor.state_dict()

    def close(self) -> None:
        """Close the envs."""
        self._venv.close()

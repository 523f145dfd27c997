"""The samplers that the settings of a run ask for."""

from __future__ import annotations

from typing import Any

from plangym_ext.learn.sampling.collected import Sampler
from plangym_ext.run.training.actors import Actors
from plangym_ext.run.training.parts import Parts
from plangym_ext.run.training.starts import make_starts
from plangym_ext.run.training.worker_collector import WorkerCollector


def make_sampler(
    parts: Parts, env: Any, network: Any, asked: Any, actors: Actors | None = None
) -> Sampler:
    """Make the sampler of a run.

    Args:
        parts: how things are made.
        env: of a planner, to play in; an agent has envs of its own.
        network: whose weights are played.
        asked: the agent, or the evaluator that asks the network in this process.
        actors: that play, if not this process or its own workers.

    Raises:
        InvalidOption: actors cannot play this run.
    """
    if actors is not None:
        actors.check(parts.config)
    if parts.config.agent is not None:
        algorithm = parts.config.algorithm
        settings = None if algorithm is None else algorithm.config
        starts = make_starts(parts.config.starts, env, asked, settings)
        exact = env.exact is not False
        return parts.agent_sampler(asked, exact=exact, starts=starts, env=env, actors=actors)
    settings = parts.config.collector
    if actors is not None:
        return WorkerCollector(parts, network, actors.workplace, actors.number(settings))
    if settings.kind == "solutions":
        return parts.solver(env, asked)
    if settings.n_workers:
        return WorkerCollector(parts, network)
    return parts.collector(env, asked, range(settings.num_envs))

"""Factory of the sampler that a run's settings name."""

from __future__ import annotations

import functools
from typing import Any

from plangym_ext.learn.sampling.collected import Sampler
from plangym_ext.run.training.actors import Actors
from plangym_ext.run.training.parts import Parts
from plangym_ext.run.training.solutions import SolutionSampler
from plangym_ext.run.training.starts import make_starts


def make_sampler(
    parts: Parts, env: Any, network: Any, agent: Any, actors: Actors | None = None
) -> Sampler:
    """Make the sampler of a run, which owns its envs.

    Args:
        parts: how things are made.
        env: that a planner searches, and branches are stepped in.
        network: that is learned.
        agent: that plays it.
        actors: that play, if not this process or its own workers.

    Raises:
        InvalidOption: actors cannot play this run.
    """
    config = parts.config
    if actors is not None:
        actors.check(config)
    if config.collector.kind == "solutions":
        planner, _ = parts.planner(network)
        limits = {"seed": config.seed, "max_steps": config.env.max_steps}
        return SolutionSampler(env, planner, config.collector.num_envs, **limits)
    options = _options(parts, env, agent)
    if config.learns_episodes:
        agent = parts.planner_agent(network, env)
    exact = env.exact is not False
    if actors is not None or config.mode == "async" or config.collector.n_workers:
        return _in_workers(parts, agent, exact, actors, options)
    return _here(parts, env, network, agent, exact, options)


def _options(parts: Parts, env: Any, agent: Any) -> dict[str, Any]:
    """Return the options that all samplers have."""
    config = parts.config
    return {
        "seed": config.seed,
        "discount": config.learner.discount,
        "episode_fields": config.collector.attributes,
        "starts": make_starts(parts.starts, env, agent, config.learner),
        # Whole episodes are learned from when they end.
        "max_steps": config.env.max_steps if config.learns_episodes else None,
        # Rows are numbered over all learners: each plays, and draws, as a part of one large run.
        "first_row": parts.learner * config.collector.num_envs,
    }


def _in_workers(
    parts: Parts, agent: Any, exact: bool, actors: Actors | None, options: dict[str, Any]
) -> Sampler:
    from plangym_ext.learn import WorkerSampler

    config, settings = parts.config, parts.config.collector
    count = actors.number(settings) if actors else max(1, settings.n_workers)
    # Processors are shared out like the games.
    share = max(1, config.threads // count)
    return WorkerSampler(
        functools.partial(_venv_of_rows, parts.alone(), exact),
        agent,
        settings.moves,
        settings.num_envs,
        n_workers=count,
        timeout=settings.timeout,
        threads=config.threads if actors else share,
        ahead=config.mode == "async",
        lead=settings.lead,
        workplace=actors.workplace if actors else None,
        **options,
    )


def _here(
    parts: Parts, env: Any, network: Any, agent: Any, exact: bool, options: dict[str, Any]
) -> Sampler:
    from plangym_ext.learn import ExpertSampler, ForkingSampler, SerialSampler, Teacher

    learner, moves = parts.config.learner, parts.config.collector.moves
    how = getattr(learner, "advantages", None)
    venv = parts.vector_env(exact=exact)
    try:
        if parts.config.planner is not None and not parts.config.learns_episodes:
            planner, _ = parts.planner(network)
            teacher = Teacher(planner, env, agent.distribution)
            return ExpertSampler(venv, agent, moves, teacher, **learner.searching, **options)
        if how is None or not how.forked:
            return SerialSampler(venv, agent, moves, **options)
        return ForkingSampler(venv, agent, moves, env, **how.branching, **options)
    except BaseException:
        venv.close()
        raise


def _venv_of_rows(parts: Parts, exact: bool, rows: range) -> Any:
    return parts.vector_env(len(rows), exact=exact)

"""Factories of a run's sampler and start distribution; SolutionSampler of planners' solutions."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from plangym_ext.arrays.nested import num_rows
from plangym_ext.core.files.state_set import StateSet
from plangym_ext.errors import IncompleteState, InvalidOption
from plangym_ext.learn.agents.agent import Agent
from plangym_ext.learn.agents.inputs import first_inputs
from plangym_ext.learn.records import EpisodeRecord, EpisodeRecorder
from plangym_ext.learn.sampling.collected import Collected, Progress, Sampler, episode_rows
from plangym_ext.learn.sampling.starts import BackwardStarts, Starts, StoredStarts, UnsureStarts
from plangym_ext.learn.schedule import at
from plangym_ext.learn.transforms.rewards import in_rewards
from plangym_ext.planners.base import as_planner
from plangym_ext.planners.games import Game, plan_games, step_games
from plangym_ext.planners.plans import Budget, Plan, one_hot
from plangym_ext.planners.players import infos_of_players
from plangym_ext.run.settings.config import StartsSettings
from plangym_ext.run.training.own_parts import Actors
from plangym_ext.run.training.parts import Parts


class SolutionSampler:
    """Samples a planner's solutions, one search from each reset of an env.

    Its data are the records of those that lead to a termination (see `Sampler`); the episodes
    that are logged are all of them, so that their mean "terminated" is the share that is solved.

    Args:
        env: where to begin, and the model to plan over.
        planner: one whose plans have the whole way in `actions`.
        num_problems: searches of a round, all in one batch.
        seed: of the run.
        max_steps: moves after which a way is cut.
    """

    def __init__(
        self, env: Any, planner: Any, num_problems: int, *, seed: int, max_steps: int
    ) -> None:
        self._env, self._planner = env, as_planner(planner)
        self._num_problems, self._seed, self._max_steps = num_problems, seed, max_steps
        self._round = 0

    def collect(self, n: int, version: int = 0, progress: Progress | None = None) -> Collected:  # noqa: ARG002
        """Search from `num_problems` resets, for any n; see `Sampler.collect`."""
        numbers = range(self._num_problems)
        games = [Game(self._env, problem_seed(self._seed, i, self._round)) for i in numbers]
        self._round += 1
        self._planner.updates = version
        plans = plan_games(self._planner, self._env, games)
        # The ways are played here: what the planner keeps of them is not needed.
        self._planner.reset()
        records, places = self._played(games, [_moves(plan) for plan in plans])
        # Of ways that the env has ended before their own ends, less is played than was found.
        played = sum(one.length for one in records)
        cost = sum((plan.budget for plan in plans), Budget(model_steps=played, restores=played))
        moves, rows = (np.array(column, np.int64) for column in zip(*places, strict=True))
        episodes = episode_rows(
            [one.return_ for one in records],
            [one.length for one in records],
            [one.terminated for one in records],
            step=moves,
            row=rows,
        )
        if progress is not None:
            progress(played)
        solved = [one for one in records if one.terminated]
        return Collected(solved, episodes, cost, version, played=played)

    def _played(
        self, games: Sequence[Game], ways: Sequence[list[Plan]]
    ) -> tuple[list[EpisodeRecord], list[tuple[int, int]]]:
        """Play all ways side by side to their ends; return them, and the move and game of each."""
        recorders = [EpisodeRecorder(game.seed, game.obs, game.legal) for game in games]
        ends = [min(len(way), self._max_steps) for way in ways]
        records, places = [], []
        going = list(range(len(games)))
        for move in range(max(ends)):
            plans = [ways[i][move] for i in going]
            steps, _ = step_games(self._env, [games[i] for i in going], plans)
            for i, plan, step in zip(going, plans, steps, strict=True):
                games[i].take(step)
                recorders[i].take(plan, step)
            # An env may end before its way does: a wrapper's limit is no part of what was searched.
            over = [i for i in going if games[i].ended or len(recorders[i]) == ends[i]]
            records += [recorders[i].record() for i in over]
            places += [(move, i) for i in over]
            going = [i for i in going if i not in over]
        return records, places

    def state_dict(self) -> dict[str, Any]:
        """Return the round, which determines the next problems."""
        return {"round": self._round}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue with the next problems."""
        self._round = int(state["round"])

    def close(self) -> None:
        """Close the env."""
        self._env.close()


def problem_seed(run_seed: int, problem: int, round_number: int) -> int:
    """Return the seed of a problem of a round."""
    sequence = np.random.SeedSequence(run_seed, spawn_key=(problem, round_number))
    return int(sequence.generate_state(1, np.uint32)[0])


def _moves(plan: Plan) -> list[Plan]:
    """Return a plan for every move of a solution; the first has the whole cost."""
    if plan.actions is None or plan.weights is None:
        raise InvalidOption(
            "settings: collector.kind 'solutions' needs a planner that finds solutions, such as "
            "phs, levin or best-first; this one's plans have no sequence of actions."
        )
    # A Discrete space may begin elsewhere than at 0; weights do not.
    origin = int(plan.action) - int(np.argmax(plan.weights))
    return [
        dataclasses.replace(
            plan,
            action=action,
            value=np.nan,
            # The search was one: its cost must not count once for each move.
            budget=plan.budget if move == 0 else Budget(),
            weights=one_hot(int(action) - origin, len(plan.weights)),
            q=None,
        )
        for move, action in enumerate(plan.actions)
    ]


def make_sampler(
    parts: Parts, env: Any, network: Any, agent: Any, actors: Actors | None = None
) -> Sampler:
    """Make the sampler of a run, which owns its envs.

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
    options = _options(parts, env, network, agent)
    if config.learns_episodes:
        agent = parts.planner_agent(network, env)
    exact = env.exact is not False
    if actors is not None or config.mode == "async" or config.collector.n_workers:
        return _in_workers(parts, agent, exact, actors, options)
    return _here(parts, env, network, agent, exact, options)


def _options(parts: Parts, env: Any, network: Any, agent: Any) -> dict[str, Any]:
    """Return the options that all samplers have."""
    config, summed = parts.config, parts.config.collector.sums
    infos = dict.fromkeys(summed, np.float64) | getattr(agent, "env_info", {})
    opponents = parts.opponents(network, env)
    # With opponents the learner's moves are those of one player.
    movers = {} if opponents else infos_of_players(env)
    return {
        "seed": config.seed,
        "discount": at(config.learner.discount, 0),
        "episode_fields": config.collector.attributes,
        "env_info": {**infos, **movers},
        "opponents": opponents,
        "episode_sums": (*summed, *getattr(agent, "episode_sums", ())),
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
    from plangym_ext.learn import ExpertSampler, ForkingSampler, PlannerAgent, SerialSampler

    learner, moves = parts.config.learner, parts.config.collector.moves
    how = getattr(learner, "advantages", None)
    venv = parts.vector_env(exact=exact)
    try:
        if parts.config.planner is not None and not parts.config.learns_episodes:
            planner, _ = parts.planner(network)
            taught = PlannerAgent(planner, env, student=agent)
            return ExpertSampler(venv, taught, moves, **learner.searching, **options)
        if how is None or not how.forked:
            return SerialSampler(venv, agent, moves, **options)
        return ForkingSampler(venv, agent, moves, env, **how.branching, **options)
    except BaseException:
        venv.close()
        raise


def _venv_of_rows(parts: Parts, exact: bool, rows: range) -> Any:
    return parts.vector_env(len(rows), exact=exact)


def make_starts(
    settings: StartsSettings, env: Any, agent: Agent, algorithm: Any = None
) -> Starts | None:
    """Make the start distribution; None if the settings name no file.

    Raises:
        IncompleteState: states of the env are not exact.
        DamagedState, ForeignState: the file cannot be used; see `StateSet.load`.
        InvalidOption: the kind has no such option.
    """
    if not settings.file:
        return None
    if env.exact is False:
        raise IncompleteState(
            f"settings: starts.file: episodes cannot begin from stored states of {env.name}, which "
            f"are not exact. Leave it out."
        )
    states = StateSet.load(settings.file, env)
    common = {"share": settings.share, **settings.options}
    try:
        if settings.kind == "stored":
            return StoredStarts(states, **common)
        if settings.kind == "backward":
            return BackwardStarts(states, **common)
        value = AgentValue(agent, env.action_space, _to_rewards(algorithm))
        return UnsureStarts(states, value, **common)
    # Of a constructor that has no argument of an option's name.
    except TypeError as error:
        raise InvalidOption(f"settings: starts.options of {settings.kind!r}: {error}") from None


def _to_rewards(algorithm: Any) -> Callable[[Any], Any]:
    """Return a function that converts values to the scale of returns."""
    for name in ("normalize_reward", "clip_reward"):
        if getattr(algorithm, name, None):
            raise InvalidOption(
                "settings: starts.kind 'unsure' compares returns of episodes with the critic, "
                f"which learns on another scale by algorithm.{name}. Choose 'stored', or leave "
                f"{name} out."
            )
    return in_rewards(algorithm, {})


class AgentValue:
    """An agent's values of observations, each as the first of an episode.

    Args:
        agent: that has values.
        action_space: of one row.
        in_rewards: what brings values to the scale of the env's rewards; None: they are on it.
    """

    def __init__(
        self, agent: Agent, action_space: Any, in_rewards: Callable[[Any], Any] | None = None
    ) -> None:
        self._agent, self._space, self._in_rewards = agent, action_space, in_rewards

    def __call__(self, obs: Any) -> Any:
        """Return `[n]` float64 of observations `[n, *obs]`."""
        rows = num_rows(obs)
        inputs = first_inputs(obs, self._space, rows)
        found = self._agent.value(inputs, self._agent.initial_carry(rows))
        values = np.asarray(found, np.float64)
        return values if self._in_rewards is None else self._in_rewards(values)

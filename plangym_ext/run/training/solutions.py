"""SolutionSampler: one search per problem, with its solution path as training data."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from plangym_ext.errors import InvalidOption
from plangym_ext.learn.records import EpisodeRecord, EpisodeRecorder
from plangym_ext.learn.sampling.collected import Collected, Progress, episode_rows
from plangym_ext.planners.base import as_planner
from plangym_ext.planners.games import Game, plan_games, step_games
from plangym_ext.planners.plans import Budget, Plan, one_hot


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
        """Return which problems come next."""
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
    """Return a plan for every move of the way that a plan found; the first is what it cost."""
    if plan.actions is None or plan.weights is None:
        raise InvalidOption(
            "settings: collector.kind 'solutions' needs a planner that finds ways, such as phs, "
            "levin or best-first; this one's plans have no actions."
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

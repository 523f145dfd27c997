"""Evaluation: periodic play of a run's network in separate episodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from plangym_ext.core.files.state_set import StateSet
from plangym_ext.learn.agents.agent_planner import AgentPlanner
from plangym_ext.planners.episode import Episode, Move, play
from plangym_ext.run.settings.config import EvaluationSettings
from plangym_ext.run.training.parts import Parts, PlainEnv


class Evaluation:
    """Plays the episodes of one evaluation, which depend only on the network.

    Args:
        parts: how things are made.
        env: of the training, which is played in if no argument of it is to differ.
        agent: that plays the network.
        algorithm: whose updates are the time of schedules.
        settings: of this evaluation.
    """

    def __init__(
        self, parts: Parts, env: Any, agent: Any, algorithm: Any, settings: EvaluationSettings
    ) -> None:
        self._algorithm = algorithm
        self._settings = settings
        self._max_steps, self._last = parts.config.env.max_steps, parts.config.last_round
        # First: an env of its own would be left open if this is refused.
        self._player = parts.player(agent, self._settings)
        self._own = parts.env(self._settings.env) if self._settings.env else None
        self._env = env if self._own is None else self._own

    def is_due(self, round_number: int) -> bool:
        """Return whether it is due in a round: every `every` rounds, and in the last round."""
        every = self._settings.every
        return bool(every) and (round_number % every == 0 or round_number == self._last)

    def summary(self, episodes: list[Episode]) -> dict[str, float]:
        """Return the log's numbers of the episodes."""
        return summary(episodes, self._settings.name)

    def episodes(self, callback: Callable[..., None] | None = None) -> list[Episode]:
        """Play the episodes."""
        self._player.updates = self._algorithm.updates
        return played(
            self._env,
            self._player,
            seed=self._settings.seed,
            max_steps=self._max_steps,
            num_episodes=self._settings.episodes,
            callback=callback,
        )

    def close(self) -> None:
        """Close the env, if it is the evaluation's own."""
        if self._own is not None:
            self._own.close()


def played(
    env: Any,
    player: Any,
    *,
    seed: int,
    max_steps: int,
    num_episodes: int,
    callback: Callable[[Move], None] | None = None,
    starts: StateSet | None = None,
) -> list[Episode]:
    """Play episodes in lockstep, or one by one with equal results. See `play`."""
    if starts is not None or not _one_by_one(env, player):
        return play(
            env,
            player,
            seed=seed,
            max_steps=max_steps,
            num_episodes=num_episodes,
            callback=callback,
            starts=starts,
        )
    found: list[Episode] = []
    alone: Any = env  # a plain one has no states to step from
    for i in range(num_episodes):

        def told(move: Move, episode: int = i) -> None:
            if callback is not None:
                callback(dataclasses.replace(move, episode=episode))

        # Seeded as in lockstep, where episode i has the i-th seed from the first.
        found.append(play(alone, player, seed=seed + i, max_steps=max_steps, callback=told))
    return found


def _one_by_one(env: Any, player: Any) -> bool:
    """Return whether each episode is to be played to its end before the next one is begun."""
    if isinstance(env, PlainEnv):
        return True
    local = getattr(env, "plan_env", env)
    # There a restore plays all steps again, and lockstep would take the square of their number.
    by_replay = any(part.method == "replay" for part, _ in local.codec.described())
    return by_replay and isinstance(player, AgentPlanner)


def summary(episodes: list[Episode], name: str = "eval") -> dict[str, float]:
    """Return mean, deviation and minimum of returns, mean length, and share of terminations."""
    found = np.array([episode.return_ for episode in episodes])
    return {
        f"{name}/return": float(found.mean()),
        f"{name}/return_std": float(found.std()),
        f"{name}/return_min": float(found.min()),
        f"{name}/length": float(np.mean([episode.length for episode in episodes])),
        f"{name}/terminated": float(np.mean([episode.terminated for episode in episodes])),
    }

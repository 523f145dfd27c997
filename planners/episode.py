"""Playing an episode with a planner.

The file is not called `play`: importing a submodule of that name would replace
the function `plangym_ext.planners.play` by the module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from plangym_ext.planners.base import Planner, SearchModel, States, at_least
from plangym_ext.planners.plans import Budget, Plan


class PlayableEnv(SearchModel, Protocol):
    """A model in which an episode can be played as well."""

    def reset(self, *, seed: int | None = None) -> tuple[States, Any, dict[str, Any]]:
        """Begin an episode: state `[S]`, obs, info."""

    def step(
        self, action: Any, state: States
    ) -> tuple[States, Any, float, bool, bool, dict[str, Any]]:
        """Restore `state` `[S]` and step: state, obs, reward, terminated, truncated, info."""


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """One step of an episode, as a callback sees it.

    Attributes:
        step: 0 for the first.
        action: what was played.
        reward: what it earned.
        total: rewards so far, this one included.
        terminated: the episode has ended.
        truncated: the episode was cut.
        state: `[S]` uint8 after the step.
        obs: `[*obs]` after the step.
        plan: why this action was played, and what that cost.
    """

    step: int
    action: Any
    reward: float
    total: float
    terminated: bool
    truncated: bool
    state: States
    obs: Any
    plan: Plan


@dataclass(frozen=True, slots=True, eq=False)
class Episode:
    """What was played.

    Attributes:
        seed: what the episode was played with.
        actions: `[T, *act]`, elements of the action space.
        rewards: `[T]` float64.
        terminated: it came to an end.
        truncated: the env cut it. If neither, `max_steps` was reached.
        budget: what all plans cost together.
    """

    seed: int
    actions: npt.NDArray[Any]
    rewards: npt.NDArray[np.float64]
    terminated: bool
    truncated: bool
    budget: Budget

    @property
    def length(self) -> int:
        """How many steps were taken."""
        return len(self.actions)

    @property
    def return_(self) -> float:
        """The undiscounted sum of rewards."""
        return float(sum(self.rewards.tolist()))


def play(
    env: PlayableEnv,
    planner: Planner,
    *,
    seed: int,
    max_steps: int,
    callback: Callable[[Move], None] | None = None,
) -> Episode:
    """Play one episode; the same seed gives the same one, byte for byte.

    Args:
        env: where to play, and the model to plan over.
        planner: forgets what it kept before it begins.
        seed: of the env's reset and, independently, of the planner's choices.
        max_steps: most steps to take, at least 1.
        callback: called after every step; what it raises ends the episode.

    Returns:
        The episode, ended or cut at `max_steps`.
    """
    seed = at_least("play: seed", seed, 0)
    max_steps = at_least("play: max_steps", max_steps, 1)
    # A child of the seed, or planner and env would draw the same numbers.
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))
    planner.reset()
    state, obs, _ = env.reset(seed=seed)
    actions: list[Any] = []
    rewards: list[float] = []
    budget, total, terminated, truncated = Budget(), 0.0, False, False
    while len(actions) < max_steps and not (terminated or truncated):
        plan = planner.plan(env, state, rng=rng, obs=obs)
        state, obs, reward, terminated, truncated, _ = env.step(plan.action, state=state)
        actions.append(plan.action)
        rewards.append(float(reward))
        total += rewards[-1]
        budget += plan.budget
        if callback is not None:
            ended = bool(terminated), bool(truncated)
            step = len(actions) - 1
            callback(Move(step, plan.action, rewards[-1], total, *ended, state, obs, plan))
    return Episode(
        seed=seed,
        actions=np.array(actions),
        rewards=np.array(rewards, np.float64),
        terminated=bool(terminated),
        truncated=bool(truncated),
        budget=budget,
    )

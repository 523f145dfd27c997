"""Game: an episode in progress, planned and stepped in batches with others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import rows_of
from plangym_ext.planners.base import Planner
from plangym_ext.planners.masks import stacked_masks, told_mask, told_masks
from plangym_ext.planners.plans import Plan
from plangym_ext.planners.players import movers, next_player
from plangym_ext.planners.simulator import Rng, States, stacked_actions, stacked_obs
from plangym_ext.states.envelope import stacked_rows


class Step(NamedTuple):
    """Result of one action in one game."""

    state: States  # [S]
    obs: Any  # [*obs]
    reward: float
    terminated: bool
    truncated: bool
    legal: npt.NDArray[Any] | None  # [A] what may be played next, if the env says so
    player: int | None = None  # who played, of an env with two players
    to_play: int | None = None  # who plays next there


class Game:
    """One episode in progress.

    Args:
        env: reset to begin it.
        seed: of the reset and, independently, of the planner's generator.

    Attributes:
        rng: the planner's generator.
        state: `[S]` uint8, where the episode is.
        obs: `[*obs]`, what is seen there.
        legal: `[A]`, which actions may be played there; None: the env does not say.
        to_play: who plays next, 0 or 1, of two players; None: there is one, or it is not known.
        ended: whether it was terminated or truncated.
    """

    def __init__(self, env: Any, seed: int) -> None:
        self.seed = seed
        self.rng = game_rng(seed)
        self.state, self.obs, info = env.reset(seed=seed)
        self.legal = told_mask(info, env)
        self.to_play = next_player(info, env)
        self.ended = False

    @classmethod
    def resumed(cls, seed: int, rng: Rng, state: States, obs: Any, legal: Any) -> Game:
        """Return a game continued from another process; arguments are the attributes."""
        # `__init__` would reset the env, in the middle of another episode perhaps.
        game = cls.__new__(cls)
        game.seed, game.rng, game.state, game.obs, game.legal = seed, rng, state, obs, legal
        game.to_play, game.ended = None, False
        return game

    def take(self, step: Step) -> None:
        """Move on to the state that a step has led to."""
        self.state, self.obs, self.legal = step.state, step.obs, step.legal
        self.to_play = step.to_play
        self.ended = step.terminated or step.truncated


def game_rng(seed: int) -> Rng:
    """Return the planner's generator: a child of the seed, as the env draws from the seed."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))


def plan_games(planner: Any, env: Any, games: Sequence[Game]) -> list[Plan]:
    """Plan a move for every game in one `plan_batch`."""
    plans: list[Plan] = planner.plan_batch(
        env,
        stacked_rows([game.state for game in games]),
        rngs=[game.rng for game in games],
        obs=stacked_obs(env, [game.obs for game in games]),
        legal=stacked_masks([game.legal for game in games]),
    )
    return plans


def step_games(env: Any, games: Sequence[Game], plans: Sequence[Plan]) -> tuple[list[Step], Any]:
    """Play the action of each game's plan in one `step_batch`; the games do not move.

    Returns:
        A step for every game, and the infos of the batch.
    """
    actions = stacked_actions(env, [plan.action for plan in plans])
    out = env.step_batch(actions, states=stacked_rows([game.state for game in games]))
    masks = told_masks(out.infos, getattr(env, "action_space", None), len(games))
    ended = np.asarray(out.terminateds) | np.asarray(out.truncateds)
    players, nexts = movers(env, out.infos, ended)
    steps = [
        Step(
            out.states[i],
            rows_of(out.obs, i),
            float(out.rewards[i]),
            bool(out.terminateds[i]),
            bool(out.truncateds[i]),
            masks[i],
            players[i],
            nexts[i],
        )
        for i in range(len(games))
    ]
    return steps, out.infos


# Opposing planners -----------------------------------------------------------


class Sides:
    """Plans the moves of episodes in lockstep, by one planner for each player.

    Args:
        planner: makes the moves of player 0, and without an opponent all.
        opponent: makes those of player 1. Neither then keeps anything from one move to the next.
    """

    def __init__(self, planner: Planner, opponent: Planner | None = None) -> None:
        self._planner, self._opponent = planner, opponent

    def reset(self) -> None:
        """Drop the memory of other episodes."""
        self._planner.reset()

    def plan(self, env: Any, games: Sequence[Game]) -> list[Plan]:
        """Return the next move of every game, by the player to move."""
        if self._opponent is None:
            return plan_games(self._planner, env, games)
        plans: dict[int, Plan] = {}
        for side, planner in enumerate((self._planner, self._opponent)):
            mine = [i for i, game in enumerate(games) if game.to_play == side]
            if mine:
                # What a planner keeps is of the games it planned for last, row by row: these may
                # be others. After a move of the other player it would find nothing to go on from.
                planner.reset()
                found = plan_games(planner, env, [games[i] for i in mine])
                plans |= dict(zip(mine, found, strict=True))
        return [plans[i] for i in range(len(games))]

    def take_rewards(self, rewards: npt.NDArray[np.float64]) -> None:
        """Pass on the rewards of the moves, `[B]`."""
        if self._opponent is None:
            self._planner.take_rewards(rewards)

    def keep_rows(self, rows: npt.NDArray[np.intp]) -> None:
        """Forget all games except some; see `Planner.keep_rows`."""
        if self._opponent is None:
            self._planner.keep_rows(rows)

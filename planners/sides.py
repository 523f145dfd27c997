"""Sides: the moves of one planner, or of two opposing planners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.planners.base import Planner
from plangym_ext.planners.games import Game, plan_games
from plangym_ext.planners.plans import Plan


class Sides:
    """Plans the moves of episodes that are played side by side.

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
        """Forget all games but some; see `Planner.keep_rows`."""
        if self._opponent is None:
            self._planner.keep_rows(rows)

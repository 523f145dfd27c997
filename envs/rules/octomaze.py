"""Octomaze env: corridors that lead from one hub to the end."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from gymnasium import spaces

from plangym_ext.core.options import Range
from plangym_ext.errors import InvalidOption
from plangym_ext.native.compiled import compiled
from plangym_ext.native.kernel.row_kernel import Kernel
from plangym_ext.native.kernel.rules_env import RulesEnv

_STATE = np.dtype([("corridor", "u1"), ("place", "<u2")])


class Octomaze(NamedTuple):
    """The env's arguments; `goal` is -1 if every corridor pays."""

    corridors: int
    length: int
    goal: int


class OctomazeEnv(RulesEnv):
    """A hub and `corridors` of `length` cells each, one action for each corridor.

    In the hub, action k enters corridor k. There its own action goes on, any other one stays.
    The step out of the last cell ends the episode and pays 1; all else pays 0. The best return is
    1, after `1 + length` steps. Steps after the end change nothing and pay 0. Nothing is random.

    The info `action_mask` allows what moves.

    The observation is `[corridors, length]` float32, fresh: the cell, one-hot; all 0 in the hub,
    all 1 at the end.

    Args:
        corridors: 2 to 64.
        length: cells of each, 1 to 1,000.
        goal: the one corridor that pays; None for all.
        render_mode: None or "ansi".

    Raises:
        ValueError: an argument is out of range.

    Source: Alpacka's Octomaze, whose states are equal wherever neither has ended.
    """

    def __init__(
        self,
        corridors: Annotated[int, Range(2, 64)] = 8,
        length: Annotated[int, Range(1, 1000)] = 10,
        *,
        goal: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        if goal is not None and not 0 <= goal < corridors:
            raise InvalidOption(f"OctomazeEnv: goal must be in [0, {corridors}); got {goal}.")
        params = Octomaze(int(corridors), int(length), -1 if goal is None else int(goal))
        info = np.dtype([("action_mask", "i1", (corridors,))])
        kernel = Kernel(_STATE, step, reset, observe, params, info, check, describe)
        obs = spaces.Box(0.0, 1.0, (corridors, length), np.float32)
        super().__init__(kernel, obs, spaces.Discrete(corridors), render_mode=render_mode)

    def text(self) -> str:
        """Return a line for each corridor, from the hub to the end, with `@` for the player."""
        place, params = int(self.state["place"]), self.kernel.params
        lines = [["+", *"." * params.length, "G"] for _ in range(params.corridors)]
        for k, line in enumerate(lines):
            if k == self.state["corridor"] or place in (0, params.length + 1):
                line[place] = "@"
        return "\n".join(map("".join, lines))


def step(state: Any, params: Any, action: int, info: Any) -> tuple[float, bool, bool]:
    """Enter a corridor, or go on in it."""
    place, end = np.int64(state["place"]), params.length + 1
    if place == 0:
        state["corridor"] = action
    moves = place < end and action == state["corridor"]
    state["place"] += moves
    ended = state["place"] == end
    pays = moves and ended and (params.goal < 0 or action == params.goal)
    describe(state, params, info)
    return 1.0 if pays else 0.0, ended, False


def reset(state: Any, params: Any) -> None:
    """Go to the hub."""
    state["corridor"] = state["place"] = 0


@compiled
def describe(state: Any, params: Any, info: Any) -> None:
    """Write which actions move."""
    place = state["place"]
    for k in range(params.corridors):
        is_next = place == 0 or (place <= params.length and state["corridor"] == k)
        info["action_mask"][k] = is_next


def observe(state: Any, params: Any, obs: Any) -> None:
    """Write the cell."""
    place = np.int64(state["place"])
    obs[:] = 1.0 if place > params.length else 0.0
    if 1 <= place <= params.length:
        obs[state["corridor"], place - 1] = 1.0


def check(state: Any, params: Any) -> bool:
    """Return whether there is such a cell."""
    return bool(state["corridor"] < params.corridors and state["place"] <= params.length + 1)

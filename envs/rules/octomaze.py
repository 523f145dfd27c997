"""Octomaze env: corridors that begin in one hub, one of which leads to a reward."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from plangym_ext.errors import InvalidOption
from plangym_ext.native.kernel import pcg64
from plangym_ext.native.kernel.row_kernel import Kernel
from plangym_ext.native.kernel.rules_env import RulesEnv

_STATE = np.dtype([("corridor", "u1"), ("place", "<u2"), ("goal", "u1"), ("rng", pcg64.RNG)])


class Octomaze(NamedTuple):
    """The env's arguments; `goal` is -1 if it is drawn."""

    corridors: int
    length: int
    goal: int


class OctomazeEnv(RulesEnv):
    """A hub and `corridors` of `length` cells each, one action for each corridor.

    In the hub, action k enters corridor k. In a corridor its own action goes on, any other one
    back a cell. The last cell of a corridor ends the episode, and pays 1 in the goal's corridor;
    all else pays 0. The best return is 1, after `length` steps.

    The observation is `[1 + corridors * length]` float32, fresh: the cell, one-hot, the hub first.
    It does not show the goal.

    Args:
        corridors: 2 to 64.
        length: cells of each, 1 to 1,000.
        goal: the corridor that pays; None has each reset draw it.
        render_mode: None or "ansi".

    Raises:
        ValueError: an argument is out of range.

    Source: Alpacka's Octomaze has eight corridors of ten cells; its rules are not copied.
    """

    def __init__(
        self,
        corridors: int = 8,
        length: int = 10,
        *,
        goal: int | None = 0,
        render_mode: str | None = None,
    ) -> None:
        if not (2 <= corridors <= 64 and 1 <= length <= 1000):
            raise InvalidOption(
                "OctomazeEnv: expected 2 to 64 corridors of 1 to 1,000 cells; got "
                f"{corridors} of {length}."
            )
        if goal is not None and not 0 <= goal < corridors:
            raise InvalidOption(f"OctomazeEnv: goal must be in [0, {corridors}); got {goal}.")
        params = Octomaze(int(corridors), int(length), -1 if goal is None else int(goal))
        kernel = Kernel(_STATE, step, reset, observe, params, check=check)
        obs = spaces.Box(0.0, 1.0, (1 + corridors * length,), np.float32)
        super().__init__(kernel, obs, spaces.Discrete(corridors), render_mode=render_mode)

    def text(self) -> str:
        """Return a line for each corridor, with `G` at the goal and `@` where the player is."""
        lines = []
        for k in range(self.kernel.params.corridors):
            cells = ["+", *"." * self.kernel.params.length]
            cells[-1] = "G" if k == self.state["goal"] else cells[-1]
            if k == self.state["corridor"] or self.state["place"] == 0:
                cells[self.state["place"]] = "@"
            lines.append("".join(cells))
        return "\n".join(lines)


def step(state: Any, params: Any, action: int, info: Any) -> tuple[float, bool, bool]:
    """Go on in a corridor, or back."""
    place = np.int64(state["place"])
    if place < params.length:  # else the episode has ended
        if place == 0:
            state["corridor"] = action
        place += 1 if action == state["corridor"] else -1
    # In the hub no corridor is meant, and equal states have equal bytes.
    if place == 0:
        state["corridor"] = 0
    ended, before = place == params.length, np.int64(state["place"])
    state["place"] = place
    found = ended and before != place and state["corridor"] == state["goal"]
    return 1.0 if found else 0.0, ended, False


def reset(state: Any, params: Any) -> None:
    """Go to the hub, and draw the goal if it is not given."""
    state["corridor"] = state["place"] = 0
    state["goal"] = (
        pcg64.integers(state["rng"], params.corridors) if params.goal < 0 else params.goal
    )


def observe(state: Any, params: Any, obs: Any) -> None:
    """Write the cell, one-hot."""
    obs[:] = 0.0
    place = np.int64(state["place"])
    obs[0 if place == 0 else np.int64(state["corridor"]) * params.length + place] = 1.0


def check(state: Any, params: Any) -> bool:
    """Return whether there are such a cell, goal and generator."""
    is_cell = state["corridor"] < params.corridors and state["place"] <= params.length
    is_goal = state["goal"] < params.corridors and (params.goal < 0 or state["goal"] == params.goal)
    return is_cell and is_goal and pcg64.could_be_rng(state["rng"])

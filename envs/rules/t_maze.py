"""TMaze env: a memory task whose first observation gives the turn at the corridor's end."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from plangym_ext.errors import InvalidOption
from plangym_ext.native.kernel import pcg64
from plangym_ext.native.kernel.row_kernel import Kernel
from plangym_ext.native.kernel.rules_env import RulesEnv

_STATE = np.dtype([("cell", "<u4"), ("goal_is_south", "u1"), ("rng", pcg64.RNG)])
_NORTH, _EAST, _SOUTH = range(3)
_GOAL_REWARD, _OTHER_REWARD = 4.0, -0.1


class TMaze(NamedTuple):
    """The env's argument."""

    n: int


class TMazeEnv(RulesEnv):
    """Cells 0, ..., n in a row: a corridor from the start to the junction, cell n.

    Actions are 0 north, 1 east, 2 south and 3 west. At the junction, north and south end the
    episode: where the goal lies that pays 4, on the other side -0.1. A reset draws the side,
    each as likely as the other. The start alone shows it, so that only those who remember find
    the goal more than every other time. A step that moves pays 0, one against a wall -0.1.

    The observation is `[3]` float32, fresh: at the start (0, 1, 1) if the goal lies north and
    (1, 1, 0) if south, (1, 0, 1) in the corridor, (0, 1, 0) at the junction.

    The best return is 4, after n + 1 steps. Without memory the best expected one is 1.95.

    Args:
        n: steps from the start to the junction, >= 1.
        render_mode: None or "ansi".

    Raises:
        ValueError: an argument is out of range.

    Source: Bakker 2002, "Reinforcement learning with long short-term memory".
    """

    def __init__(self, n: int = 20, *, render_mode: str | None = None) -> None:
        if not 1 <= n < 2**31:
            raise InvalidOption(f"TMazeEnv: n must be in [1, 2**31); got {n}.")
        self.n = n
        kernel = Kernel(_STATE, step, reset, observe, TMaze(int(n)), check=check)
        obs = spaces.Box(0.0, 1.0, (3,), np.float32)
        super().__init__(kernel, obs, spaces.Discrete(4), render_mode=render_mode)

    @property
    def cell(self) -> int:
        """Where the player is."""
        return int(self.state["cell"])

    @property
    def goal_is_south(self) -> bool:
        """On which side the goal lies."""
        return bool(self.state["goal_is_south"])

    def text(self) -> str:
        """Return three lines: the corridor with `@`, and `G` where the goal lies."""
        corridor = ["."] * (self.n + 1)
        corridor[self.cell] = "@"
        north, south = (".", "G") if self.goal_is_south else ("G", ".")
        wall = "#" * self.n
        return "\n".join((wall + north, "".join(corridor), wall + south))


def step(state: Any, params: Any, action: int, info: Any) -> tuple[float, bool, bool]:
    """Move north (0), east (1), south (2) or west (3)."""
    cell = np.int64(state["cell"])
    # Anywhere but at the junction these are walls, and cost as much as the wrong side.
    if action in (_NORTH, _SOUTH):
        ended = cell == params.n
        found = ended and (action == _SOUTH) == (state["goal_is_south"] == 1)
        return _GOAL_REWARD if found else _OTHER_REWARD, ended, False
    after = min(max(cell + (1 if action == _EAST else -1), 0), params.n)
    state["cell"] = after
    return 0.0 if after != cell else _OTHER_REWARD, False, False


def reset(state: Any, params: Any) -> None:
    """Go to the start, and draw the side of the goal."""
    state["goal_is_south"] = pcg64.integers(state["rng"], 2)
    state["cell"] = 0


def observe(state: Any, params: Any, obs: Any) -> None:
    """Write the sign at the start, else what corridor or junction look like."""
    obs[:] = 0.0
    if state["cell"] == 0:
        obs[1] = 1.0
        obs[0 if state["goal_is_south"] == 1 else 2] = 1.0
    elif state["cell"] == params.n:
        obs[1] = 1.0
    else:
        obs[0] = obs[2] = 1.0


def check(state: Any, params: Any) -> bool:
    """Return whether there are such a cell, side and generator."""
    is_place = state["cell"] <= params.n and state["goal_is_south"] <= 1
    return is_place and pcg64.could_be_rng(state["rng"])

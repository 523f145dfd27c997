"""NarrowPath env: a corridor with a reward only at its far end."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from plangym_ext.errors import InvalidOption
from plangym_ext.native.kernel.row_kernel import Kernel
from plangym_ext.native.kernel.rules_env import RulesEnv

_STATE = np.dtype([("cell", "<u4")])


class NarrowPath(NamedTuple):
    """The env's argument."""

    n: int


class NarrowPathEnv(RulesEnv):
    """Cells 0, 1, ..., n in a row; cell n is the end.

    Action 0 goes on to the next cell, action 1 jumps to the end. Entering cell n - 1
    pays 1, everything else 0, so the best return is 1, after n - 1 steps; one more
    ends the episode. Steps at the end change nothing, pay 0 and report it again.

    Nothing is random. The observation is the cell, an int in [0, n].

    Args:
        n: index of the end, >= 2.
        render_mode: None or "ansi".

    Raises:
        ValueError: an argument is out of range.

    Source: rlplay (I. Nazarov), `NarrowPath`.
    """

    def __init__(self, n: int = 3, *, render_mode: str | None = None) -> None:
        if not 2 <= n < 2**31:
            raise InvalidOption(f"NarrowPathEnv: n must be in [2, 2**31); got {n}.")
        self.n = n
        kernel = Kernel(_STATE, step, reset, observe, NarrowPath(int(n)), check=check)
        super().__init__(
            kernel, spaces.Discrete(n + 1), spaces.Discrete(2), render_mode=render_mode
        )

    @property
    def cell(self) -> int:
        """Where the player is."""
        return int(self.state["cell"])

    def text(self) -> str:
        """Return `@` on the player's cell, `x` on the end."""
        line = ["."] * self.n + ["x"]
        line[self.cell] = "@"
        return "".join(line)


def step(state: Any, params: Any, action: int, info: Any) -> tuple[float, bool, bool]:
    """Step forward (0) or jump to the end (1)."""
    cell, reward = np.int64(state["cell"]), 0.0
    if cell != params.n:
        cell = cell + 1 if action == 0 else params.n
        # Also for a jump: with n = 2 it lands on n and is not paid.
        reward = 1.0 if cell == params.n - 1 else 0.0
    state["cell"] = cell
    return reward, cell == params.n, False


def reset(state: Any, params: Any) -> None:
    """Go back to cell 0."""
    state["cell"] = 0


def observe(state: Any, params: Any, obs: Any) -> None:
    """Write the cell."""
    obs[0] = state["cell"]


def check(state: Any, params: Any) -> bool:
    """Return whether there is such a cell."""
    return bool(state["cell"] <= params.n)

"""ChainMDP env: a chain of cells with an exit at both ends, one exit paying more."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from plangym_ext.errors import InvalidOption
from plangym_ext.native.kernel import pcg64
from plangym_ext.native.kernel.row_kernel import Kernel
from plangym_ext.native.kernel.rules_env import RulesEnv

_STATE = np.dtype([("cell", "<u4"), ("rng", pcg64.RNG)])
_LEFT_REWARD, _RIGHT_REWARD = 0.7, 1.0


class ChainMDP(NamedTuple):
    """The env's arguments."""

    n: int
    p: float


class ChainMDPEnv(RulesEnv):
    """Cells 0, ..., n - 1 in a row, and the absorbing cell n beyond both ends.

    Action 0 moves left, action 1 right, each with probability p; else the player
    stays. Leaving on the left pays 0.7, on the right 1.0, everything else 0. A reset
    draws the cell uniformly from all n + 1, the absorbing one included: such an
    episode ends with its first step, which pays 0.

    With n = 3, p = 1 and discount 0.5 the values Q(cell, action) are
    (0.7, 0.25), (0.35, 0.5), (0.25, 1.0), (0, 0).

    The observation is the cell as `[n + 1]` float32, one-hot, fresh.

    Args:
        n: cells of the chain, >= 1.
        p: probability that a move happens, in [0, 1].
        render_mode: None or "ansi".

    Raises:
        ValueError: an argument is out of range.

    Source: rlplay (I. Nazarov), `ChainMDP`, after deep_q_rl (N. Sprague).
    """

    def __init__(self, n: int = 3, p: float = 1.0, *, render_mode: str | None = None) -> None:
        if not 1 <= n < 2**31:
            raise InvalidOption(f"ChainMDPEnv: n must be in [1, 2**31); got {n}.")
        if not 0.0 <= p <= 1.0:
            raise InvalidOption(f"ChainMDPEnv: p must be a probability, in [0, 1]; got {p}.")
        self.n, self.p = n, float(p)
        kernel = Kernel(_STATE, step, reset, observe, ChainMDP(int(n), float(p)), check=check)
        obs = spaces.Box(0.0, 1.0, (n + 1,), np.float32)
        super().__init__(kernel, obs, spaces.Discrete(2), render_mode=render_mode)

    @property
    def cell(self) -> int:
        """Where the player is."""
        return int(self.state["cell"])

    def text(self) -> str:
        """Return `@` on the player's cell, the absorbing one last."""
        line = ["."] * self.n + ["x"]
        line[self.cell] = "@"
        return "".join(line)


def step(state: Any, params: Any, action: int, info: Any) -> tuple[float, bool, bool]:
    """Try to move left (0) or right (1); draw a number unless the cell is absorbing."""
    # Signed: the cell to the left of 0 is -1, for which uint32 has no number.
    cell, reward = np.int64(state["cell"]), 0.0
    if cell != params.n and pcg64.random(state["rng"]) < params.p:
        cell += 2 * action - 1
        if cell < 0:
            cell, reward = params.n, _LEFT_REWARD
        elif cell == params.n:
            reward = _RIGHT_REWARD
    state["cell"] = cell
    return reward, cell == params.n, False


def reset(state: Any, params: Any) -> None:
    """Draw one of the n + 1 cells."""
    state["cell"] = pcg64.integers(state["rng"], params.n + 1)


def observe(state: Any, params: Any, obs: Any) -> None:
    """Write the cell, one-hot."""
    obs[:] = 0.0
    obs[state["cell"]] = 1.0


def check(state: Any, params: Any) -> bool:
    """Return whether there is such a cell, and such a generator."""
    # Compiled code checks no index: `observe` writes to the place that the cell says.
    return state["cell"] <= params.n and pcg64.could_be_rng(state["rng"])

"""Compiled kernel of ChainMDP, with the rules of `ChainMDPEnv`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from plangym_ext.envs.chain_mdp import _LEFT_REWARD, _RIGHT_REWARD
from plangym_ext.native.kernel import pcg64
from plangym_ext.native.kernel.kernel import Kernel

_STATE = np.dtype([("cell", "<u4"), ("rng", pcg64.RNG)])


class ChainMDP(NamedTuple):
    """The env's arguments."""

    n: int
    p: float


def kernel(env: Any) -> Kernel:
    """Return the kernel of a `ChainMDPEnv`."""
    params = ChainMDP(int(env.n), float(env.p))
    return Kernel(_STATE, step, reset, observe, params, check=check)


def step(state: Any, params: Any, action: int, info: Any) -> tuple[float, bool, bool]:
    """Try to move left (0) or right (1)."""
    # Signed: the cell to the left of 0 is -1, for which uint32 has no number.
    cell, reward = np.int64(state["cell"]), 0.0
    # In the env's order: the absorbing cell draws nothing, or generators would part here.
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

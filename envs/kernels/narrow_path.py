"""Compiled kernel of NarrowPath, with the rules of `NarrowPathEnv`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from plangym_ext.native.kernel.kernel import Kernel

_STATE = np.dtype([("cell", "<u4")])


class NarrowPath(NamedTuple):
    """The env's argument."""

    n: int


def kernel(env: Any) -> Kernel:
    """Return the kernel of a `NarrowPathEnv`."""
    return Kernel(_STATE, step, reset, observe, NarrowPath(int(env.n)), check=check)


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
    return state["cell"] <= params.n

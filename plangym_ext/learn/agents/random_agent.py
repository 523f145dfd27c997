"""RandomAgent: random actions from the action space. Imports no torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from plangym_ext.arrays.spaces import Leaf, SpaceLayout
from plangym_ext.learn.agents.agent import Acted, Agent
from plangym_ext.learn.agents.inputs import Inputs, needed_noise
from plangym_ext.learn.distributions.noise import Noise


class RandomAgent(Agent):
    """Draws actions uniformly; from a normal distribution where a Box has no bounds.

    Args:
        action_space: Box, Discrete, MultiDiscrete, MultiBinary, or Dict and Tuple of them.
    """

    looks_at = frozenset()

    def __init__(self, action_space: spaces.Space[Any]) -> None:
        self._layout = SpaceLayout(action_space)

    def step(self, inputs: Inputs, carry: Any) -> Acted:
        """Draw the actions of B rows from `inputs.noise`, among legal ones only."""
        noise = needed_noise(inputs, type(self).__name__)
        drawn = [_drawn(leaf, noise, inputs.legal) for leaf in self._layout.leaves]
        return Acted(self._layout.join(tuple(drawn)), {}, carry)


def _drawn(leaf: Leaf, noise: Noise, legal: npt.NDArray[np.bool_] | None) -> npt.NDArray[Any]:
    """Return `[B, *shape]` of one leaf."""
    count = int(np.prod(leaf.shape))
    if isinstance(leaf.space, spaces.Box):
        rows = _in_box(leaf.space, noise, count)
    elif legal is not None and isinstance(leaf.space, spaces.Discrete):
        rows = int(leaf.space.start) + legal_index(noise.uniform()[:, 0], legal)
    elif legal is not None and isinstance(leaf.space, spaces.MultiDiscrete):
        ends, uniform = np.cumsum(leaf.space.nvec.ravel())[:-1], noise.uniform(count)
        parts = enumerate(np.split(legal, ends, axis=1))
        drawn = [legal_index(uniform[:, k], part) for k, part in parts]
        rows = leaf.space.start.ravel() + np.stack(drawn, axis=1)
    else:
        low, high = leaf.bounds
        low, high = (np.broadcast_to(bound, leaf.shape).ravel() for bound in (low, high))
        # Both bounds are elements of the space.
        rows = low + np.floor(noise.uniform(count) * (high - low + 1))
    return rows.astype(leaf.dtype).reshape(-1, *leaf.shape)


def legal_index(uniform: npt.NDArray[Any], legal: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    """Return `[B]`, which action of those that a row allows; of all where it allows none."""
    allowed = legal | ~legal.any(axis=1, keepdims=True)
    # The first place at which the count of allowed actions comes to a number is allowed itself.
    wanted = np.floor(uniform * allowed.sum(axis=1)) + 1
    return np.argmax(allowed.cumsum(axis=1) == wanted[:, None], axis=1)


def _in_box(space: spaces.Box, noise: Noise, count: int) -> npt.NDArray[np.float64]:
    """Return `[B, count]`: even between bounds, exponential from one bound, normal without any."""
    low, high = (bound.ravel().astype(np.float64) for bound in (space.low, space.high))
    whole = np.issubdtype(space.dtype, np.integer)
    below, above = np.isfinite(low), np.isfinite(high)
    uniform = noise.uniform(count)
    both, neither = below & above, ~below & ~above
    start = np.where(below, low, np.where(above, high, 0.0))
    with np.errstate(over="ignore", invalid="ignore"):
        # Whole numbers are rounded down at the end, so the upper bound needs a width of its own.
        width = np.where(both, high - low + whole, 1.0)
        rows = np.where(both, start + uniform * width, start)
    if not both.all():
        # Exponential, away from the only bound; 1 - u is never 0.
        tail = -np.log1p(-uniform) * np.where(below, 1.0, -1.0)
        rows = np.where(both, rows, start + np.where(neither, noise.normal(count), tail))
    return np.floor(rows) if whole else np.clip(rows, low, high)

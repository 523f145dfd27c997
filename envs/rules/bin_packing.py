"""BinPacking env: items of drawn sizes are put into as few bins as possible."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from plangym_ext.errors import InvalidOption
from plangym_ext.native.compiled import compiled
from plangym_ext.native.kernel import pcg64
from plangym_ext.native.kernel.row_kernel import Kernel
from plangym_ext.native.kernel.rules_env import RulesEnv


class BinPacking(NamedTuple):
    """The env's arguments."""

    items: int
    capacity: int
    largest: int


class BinPackingEnv(RulesEnv):
    """`items` items, whose sizes a reset draws, are put into bins of one capacity.

    Action b puts the next item into bin b; there are as many bins as items. The first item of a
    bin pays -1, any other one 0, so a return is the number of bins used, negated. An item that
    does not fit ends the episode and pays -1 for each item that is left. The episode ends with
    the last item.

    The info `action_mask` says into which bins the next item fits; of the empty bins it allows
    the first alone, as they are alike.

    The observation is `[2 items]` float32, fresh: what the bins hold, then the sizes of the items
    that are left, the next one first, both divided by the capacity.

    Args:
        items: 1 to 128.
        capacity: of a bin, 1 to 255.
        largest: size of the largest item, 1 to `capacity`; None for the capacity.
        render_mode: None or "ansi".

    Raises:
        ValueError: an argument is out of range.
    """

    def __init__(
        self,
        items: int = 12,
        capacity: int = 10,
        *,
        largest: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        largest = capacity if largest is None else largest
        if not (1 <= items <= 128 and 1 <= largest <= capacity <= 255):
            raise InvalidOption(
                "BinPackingEnv: expected 1 to 128 items of at most a capacity of 1 to 255; got "
                f"items={items}, largest={largest}, capacity={capacity}."
            )
        count = (items,)
        fields = [("bins", "u1", count), ("sizes", "u1", count), ("next", "u1"), ("rng", pcg64.RNG)]
        params, info = (
            BinPacking(items, capacity, largest),
            np.dtype([("action_mask", "i1", count)]),
        )
        kernel = Kernel(np.dtype(fields), step, reset, observe, params, info, check, describe)
        obs = spaces.Box(0.0, 1.0, (2 * items,), np.float32)
        super().__init__(kernel, obs, spaces.Discrete(items), render_mode=render_mode)

    def text(self) -> str:
        """Return what the bins hold, and the sizes of the items that are left."""
        bins = [int(held) for held in self.state["bins"] if held]
        return f"{bins} <- {self.state['sizes'][self.state['next'] :].tolist()}"


@compiled
def _fits(state: Any, params: Any, bin_: int) -> bool:
    """Return whether the next item fits into a bin."""
    # Signed numbers: sums of bytes would begin anew at 256.
    held, size = np.int64(state["bins"][bin_]), np.int64(state["sizes"][state["next"]])
    return held + size <= params.capacity


def step(state: Any, params: Any, action: int, info: Any) -> tuple[float, bool, bool]:
    """Put the next item into a bin."""
    reward = 0.0
    if state["next"] < params.items:
        if _fits(state, params, action):
            reward = -1.0 if state["bins"][action] == 0 else 0.0
            state["bins"][action] += state["sizes"][state["next"]]
            state["next"] += 1
        else:
            reward = np.float64(state["next"]) - params.items
            state["next"] = params.items
    describe(state, params, info)
    return reward, state["next"] == params.items, False


def reset(state: Any, params: Any) -> None:
    """Empty the bins, and draw the sizes."""
    state["bins"][:] = 0
    state["next"] = 0
    for i in range(params.items):
        state["sizes"][i] = 1 + pcg64.integers(state["rng"], params.largest)


@compiled
def describe(state: Any, params: Any, info: Any) -> None:
    """Write into which bins the next item fits; of the empty ones, the first alone."""
    mask, had_empty = info["action_mask"], False
    for b in range(params.items):
        is_empty = state["bins"][b] == 0
        is_allowed = state["next"] < params.items and not (is_empty and had_empty)
        mask[b] = is_allowed and _fits(state, params, b)
        had_empty = had_empty or is_empty


def observe(state: Any, params: Any, obs: Any) -> None:
    """Write bins and items."""
    obs[:] = 0.0
    for b in range(params.items):
        obs[b] = np.float32(state["bins"][b]) / np.float32(params.capacity)
    begin = np.int64(state["next"])
    for i in range(begin, params.items):
        size = np.float32(state["sizes"][i]) / np.float32(params.capacity)
        obs[params.items + i - begin] = size


def check(state: Any, params: Any) -> bool:
    """Return whether there are such bins, items and generator."""
    for i in range(params.items):
        if state["bins"][i] > params.capacity or not 1 <= state["sizes"][i] <= params.largest:
            return False
    return state["next"] <= params.items and pcg64.could_be_rng(state["rng"])

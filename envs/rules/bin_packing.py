"""BinPacking env: items of random sizes are put into bins; the bins' fill levels are observed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
from gymnasium import spaces

from plangym_ext.core.options import Range, Weight
from plangym_ext.errors import InvalidOption
from plangym_ext.native.compiled import compiled
from plangym_ext.native.kernel import pcg64
from plangym_ext.native.kernel.row_kernel import Kernel
from plangym_ext.native.kernel.rules_env import RulesEnv


class BinPacking(NamedTuple):
    """The env's arguments, with the sums of the probabilities."""

    capacity: int
    sizes: np.ndarray
    cumulated: np.ndarray
    horizon: int
    reward_scale: float
    bin_scale: float
    shows_time: bool


class BinPackingEnv(RulesEnv):
    """`horizon` items, drawn one by one, are put into bins of one capacity.

    Action 0 puts the item into a new bin, action k into a bin that holds k. Where no bin holds k,
    or the item does not fit, it goes into a new bin. A new bin pays its room that is left,
    negated, an item in a used one its size: a return is the waste at the end, negated. The episode
    ends with the last item.

    The info `action_mask` says what is not taken for action 0, `invalid_action` whether the step
    was.

    The observation is `[capacity + 1]` float32, fresh: how many bins hold k, which is 0 for k = 0,
    then the item's size; with `time_in_observation` the share of items that are left, too.

    Args:
        capacity: of a bin, 2 to 255.
        item_sizes: sizes that are drawn, 1 to `capacity`.
        item_probabilities: of each size; they sum to 1.
        horizon: items of an episode, 1 to 65,535.
        reward_scale: a factor of rewards.
        bin_scale: a factor of the numbers of bins in observations.
        time_in_observation: whether they have the time.
        render_mode: None or "ansi".

    Raises:
        ValueError: an argument is out of range.

    Source: Alpacka's BinPacking, after or-rl-benchmarks (Balaji et al. 2019). There the generator
    is no part of a state, and an item as large as a bin is an error.
    """

    def __init__(
        self,
        capacity: Annotated[int, Range(2, 255)] = 9,
        item_sizes: Sequence[int] = (2, 3),
        item_probabilities: Sequence[float] = (0.8, 0.2),
        horizon: Annotated[int, Range(1, 65_535)] = 1000,
        *,
        reward_scale: float = 1.0,
        bin_scale: Weight = 1.0,
        time_in_observation: bool = False,
        render_mode: str | None = None,
    ) -> None:
        sizes, chances = np.array(item_sizes, np.int64), np.array(item_probabilities, np.float64)
        is_drawn = sizes.shape == chances.shape == (sizes.size,) and np.isclose(chances.sum(), 1)
        if not (is_drawn and sizes.size and (chances >= 0).all()):
            raise InvalidOption(
                "BinPackingEnv: expected a probability for each size, which sum to 1; got "
                f"{item_probabilities} for {item_sizes}."
            )
        if not 1 <= sizes.min() <= sizes.max() <= capacity:
            raise InvalidOption(
                f"BinPackingEnv: item_sizes must be in [1, {capacity}]; got {item_sizes}."
            )
        fields = [("bins", "<u2", (capacity,)), ("item", "u1"), ("left", "<u2"), ("rng", pcg64.RNG)]
        params = BinPacking(
            int(capacity),
            sizes,
            np.cumsum(chances),
            int(horizon),
            float(reward_scale),
            float(bin_scale),
            bool(time_in_observation),
        )
        info = np.dtype([("action_mask", "i1", (capacity,)), ("invalid_action", "<i8")])
        kernel = Kernel(np.dtype(fields), step, reset, observe, params, info, check, reset_info)
        high = [*[horizon * params.bin_scale] * capacity, sizes.max(), *[1] * params.shows_time]
        obs = spaces.Box(np.zeros(len(high), np.float32), np.array(high, np.float32))
        super().__init__(kernel, obs, spaces.Discrete(capacity), render_mode=render_mode)

    def text(self) -> str:
        """Return how many bins there are of each content, and the item."""
        bins = {k: int(count) for k, count in enumerate(self.state["bins"]) if count}
        return f"{bins} <- {self.state['item']}"


@compiled
def _fits(state: Any, params: Any, action: int) -> bool:
    """Return whether the item fits into a bin of that content."""
    fits = action + np.int64(state["item"]) <= params.capacity
    return fits and (action == 0 or state["bins"][action] > 0)


@compiled
def describe(state: Any, params: Any, info: Any) -> None:
    """Write where the item fits."""
    for action in range(params.capacity):
        info["action_mask"][action] = state["left"] > 0 and _fits(state, params, action)


def step(state: Any, params: Any, action: int, info: Any) -> tuple[float, bool, bool]:
    """Put the item into a bin, and draw the next."""
    reward, valid = 0.0, True
    if state["left"] > 0:
        item, valid = np.int64(state["item"]), _fits(state, params, action)
        target = action if valid else 0
        if target > 0:
            state["bins"][target] -= 1
        # Nothing fits into a full bin.
        if target + item < params.capacity:
            state["bins"][target + item] += 1
        reward = params.reward_scale * (item if target > 0 else item - params.capacity)
        state["left"] -= 1
        _draw(state, params)
    describe(state, params, info)
    info["invalid_action"] = not valid
    return reward, state["left"] == 0, False


@compiled
def _draw(state: Any, params: Any) -> None:
    state["item"] = params.sizes[pcg64.categorical(state["rng"], params.cumulated)]


def reset(state: Any, params: Any) -> None:
    """Take the bins away, and draw an item."""
    state["bins"][:] = 0
    state["left"] = params.horizon
    _draw(state, params)


def reset_info(state: Any, params: Any, info: Any) -> None:
    """Write the infos of a state; no action was."""
    describe(state, params, info)
    info["invalid_action"] = 0


def observe(state: Any, params: Any, obs: Any) -> None:
    """Write bins, item and time."""
    for k in range(params.capacity):
        obs[k] = np.float32(state["bins"][k]) * np.float32(params.bin_scale)
    obs[params.capacity] = state["item"]
    if params.shows_time:
        obs[params.capacity + 1] = np.float64(state["left"]) / params.horizon


def check(state: Any, params: Any) -> bool:
    """Return whether there are such an item and generator, and no more bins than items."""
    bins, known = np.int64(0), False
    for k in range(params.capacity):
        bins += state["bins"][k]
    for size in params.sizes:
        known = known or state["item"] == size
    is_counted = state["bins"][0] == 0 and bins + state["left"] <= params.horizon
    return known and is_counted and pcg64.could_be_rng(state["rng"])

"""BitFlip env: bits are flipped one by one until they equal the goal."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from gymnasium import spaces

from plangym_ext.core.options import Range
from plangym_ext.native.compiled import compiled
from plangym_ext.native.kernel import pcg64
from plangym_ext.native.kernel.row_kernel import Kernel
from plangym_ext.native.kernel.rules_env import RulesEnv


class BitFlip(NamedTuple):
    """The env's arguments."""

    n: int
    ordered: bool
    invalid_reward: float


class BitFlipEnv(RulesEnv):
    """n bits and n bits of a goal, both drawn by a reset.

    Action i flips bit i. A step pays -1, and 0 if the bits then equal the goal, which ends the
    episode. The best return is thus one less than the number of bits that differ, negated.

    With `ordered` bits are zeros at first and the goal is ones, and a bit that is 0 can be flipped
    only if all before it are 1. Other flips change nothing and pay `invalid_reward`. The step
    that reaches the goal pays 1, all others 0. The info `action_mask` says what can be flipped.

    The observation is `[2 n]` float32, fresh: the bits, then the goal's.

    Args:
        n: bits, 1 to 256.
        ordered: whether bits are set in their order.
        invalid_reward: of a flip that is against the order.
        render_mode: None or "ansi".

    Raises:
        ValueError: an argument is out of range.

    Source: Andrychowicz et al. 2017, "Hindsight experience replay"; in order: Alpacka's BitFlipper.
    """

    def __init__(
        self,
        n: Annotated[int, Range(1, 256)] = 8,
        *,
        ordered: bool = False,
        invalid_reward: float = 0.0,
        render_mode: str | None = None,
    ) -> None:
        state = np.dtype([("bits", "u1", (n,)), ("goal", "u1", (n,)), ("rng", pcg64.RNG)])
        params = BitFlip(int(n), bool(ordered), float(invalid_reward))
        info = np.dtype([("action_mask", "i1", (n,))])
        kernel = Kernel(state, step, reset, observe, params, info, check, describe)
        obs = spaces.Box(0.0, 1.0, (2 * n,), np.float32)
        super().__init__(kernel, obs, spaces.Discrete(n), render_mode=render_mode)

    def text(self) -> str:
        """Return the bits above the goal's."""
        return "\n".join("".join(map(str, self.state[name])) for name in ("bits", "goal"))


@compiled
def describe(state: Any, params: Any, info: Any) -> None:
    """Write which bits can be flipped."""
    mask, bits, all_set = info["action_mask"], state["bits"], True
    for i in range(params.n):
        mask[i] = all_set or not params.ordered or bits[i] == 1
        all_set = all_set and bits[i] == 1


def step(state: Any, params: Any, action: int, info: Any) -> tuple[float, bool, bool]:
    """Flip a bit."""
    bits, goal = state["bits"], state["goal"]
    describe(state, params, info)
    valid = info["action_mask"][action] == 1
    if valid:
        bits[action] = 1 - bits[action]
    equal = True
    for i in range(params.n):
        equal = equal and bits[i] == goal[i]
    describe(state, params, info)
    reward = 0.0 if equal else -1.0
    if params.ordered:
        reward = reward + 1.0 if valid else params.invalid_reward
    return reward, equal, False


def reset(state: Any, params: Any) -> None:
    """Draw the bits, then the goal."""
    for i in range(params.n):
        state["bits"][i] = 0 if params.ordered else pcg64.integers(state["rng"], 2)
    for i in range(params.n):
        state["goal"][i] = 1 if params.ordered else pcg64.integers(state["rng"], 2)


def observe(state: Any, params: Any, obs: Any) -> None:
    """Write bits and goal."""
    obs[: params.n] = state["bits"]
    obs[params.n :] = state["goal"]


def check(state: Any, params: Any) -> bool:
    """Return whether they are bits, and there is such a generator."""
    for i in range(params.n):
        if state["bits"][i] > 1 or state["goal"][i] > 1:
            return False
    return pcg64.could_be_rng(state["rng"])

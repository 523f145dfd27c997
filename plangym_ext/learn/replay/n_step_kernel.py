"""Compiled n-step returns of the steps in a replay batch."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.core.compiling.jit import kernel


class StepArrays(NamedTuple):
    """Inputs of n-step returns: a ring of M slots for B envs."""

    reward: npt.NDArray[np.float32]  # [M, B]
    terminated: npt.NDArray[np.bool_]  # [M, B]
    final: npt.NDArray[np.int64]  # [M, B] serial of the last observation, -1: no episode ended


class NStep(NamedTuple):
    """n-step returns of N steps."""

    reward: npt.NDArray[np.float32]  # [N] discounted sum
    discount: npt.NDArray[np.float32]  # [N] of the value of what follows; 0 after a termination
    place: npt.NDArray[np.int64]  # [N] slot * B + env of the observation that follows
    final: npt.NDArray[np.int64]  # [N] serial of that observation, if an episode ended; else -1


def n_step_returns(
    steps: StepArrays, places: npt.NDArray[np.int64], n: int, gamma: float, cursor: int
) -> NStep:
    """Return the n-step returns of some steps, fresh.

    The sum is cut where the episode ends, and at the newest step that there is: what follows
    is then worth the value of the observation that was seen last, discounted by as many steps
    as were summed.

    Args:
        steps: the ring.
        places: `[N]`, slot * B + env of each first step.
        n: at least 1.
        gamma: discount of a step.
        cursor: slot of the next step, whose observation follows the newest one.
    """
    count = len(places)
    found = NStep(
        np.empty(count, np.float32),
        np.empty(count, np.float32),
        np.empty(count, np.int64),
        np.empty(count, np.int64),
    )
    write_n_step(steps, places, n, gamma, cursor, found)
    return found


@kernel
def write_n_step(steps: Any, places: Any, n: int, gamma: float, cursor: int, found: Any) -> None:
    """Write `found`; see `n_step_returns`.

    Source: Sutton and Barto 2018, "Reinforcement learning", equation 7.1; sums are in float64.
    """
    slots, envs = steps.reward.shape
    for i in range(len(places)):
        slot, env = places[i] // envs, places[i] % envs
        total, discount = 0.0, 1.0
        for step in range(n):
            total += discount * steps.reward[slot, env]
            discount *= gamma
            following = slot + 1 if slot + 1 < slots else 0
            final = steps.final[slot, env]
            if final >= 0 or following == cursor or step == n - 1:
                found.discount[i] = 0.0 if steps.terminated[slot, env] else discount
                found.place[i] = following * envs + env
                found.final[i] = final
                break
            slot = following
        found.reward[i] = total

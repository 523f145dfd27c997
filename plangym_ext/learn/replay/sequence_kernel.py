"""Compiled assembly of replay batches: sequences, and n-step returns of single steps."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.core.compiling.jit import kernel


class SequenceArrays(NamedTuple):
    """Inputs of sequences: a ring of M slots for B envs."""

    reward: npt.NDArray[np.float32]  # [M, B]
    terminated: npt.NDArray[np.bool_]  # [M, B]
    final: npt.NDArray[np.int64]  # [M, B] serial of the last observation, -1: no episode ended
    valid: npt.NDArray[np.bool_]  # [M, B]
    first: npt.NDArray[np.bool_]  # [M, B]


class Rows(NamedTuple):
    """R rows of N sequences: the observations of steps, and those that ended an episode."""

    place: npt.NDArray[np.int64]  # [R, N] slot * B + env of the observation
    final: npt.NDArray[np.int64]  # [R, N] serial of the observation, if it ended an episode; or -1
    previous: npt.NDArray[np.int64]  # [R, N] place of the step before, -1: an episode begins
    first: npt.NDArray[np.bool_]  # [R, N]
    step: npt.NDArray[np.bool_]  # [R, N] whether an action was played there
    reward: npt.NDArray[np.float32]  # [R, N] discounted sum over up to n steps
    discount: npt.NDArray[np.float32]  # [R, N] of the value of `following`
    following: npt.NDArray[np.int64]  # [R, N] row of what follows these steps


def new_rows(count: int, sequences: int) -> Rows:
    """Return R rows of N sequences, to be written."""
    shape = count, sequences
    int64, bools, floats = np.int64, np.bool_, np.float32
    kinds: tuple[Any, ...] = (int64, int64, int64, bools, bools, floats, floats, int64)
    arrays: list[Any] = [np.zeros(shape, kind) for kind in kinds]
    return Rows(*arrays)


@kernel
def write_rows(steps: Any, starts: Any, n: int, gamma: float, cursor: int, rows: Any) -> None:
    """Write sequences that begin at some steps.

    After the last step of an episode there is a row for its last observation, which no action
    answers to; so what follows k steps is k rows later, whatever ended. A sequence that reaches the
    newest step continues with rows of the observation after it.

    Args:
        steps: `SequenceArrays`.
        starts: `[N]` int64, slot * B + env of the first step.
        n: most rewards that are summed.
        gamma: discount of a step.
        cursor: slot of the next step, whose observation follows the newest one.
        rows: `Rows`, written; n-step returns only where they end within.
    """
    slots, envs = steps.reward.shape
    count = rows.place.shape[0]
    for i in range(len(starts)):
        slot, env = starts[i] // envs, starts[i] % envs
        row = 0
        while row < count:
            if slot != cursor and not steps.valid[slot, env]:  # the env stood still
                slot = slot + 1 if slot + 1 < slots else 0
                continue
            before = slot - 1 if slot > 0 else slots - 1
            rows.place[row, i] = slot * envs + env
            rows.final[row, i] = -1
            if slot == cursor:
                # Whether an episode begins there has been told by the step before.
                begins = steps.final[before, env] >= 0 or not steps.valid[before, env]
                rows.first[row, i] = begins
                rows.previous[row, i] = -1 if begins else before * envs + env
                rows.step[row, i] = False
                row += 1
                continue
            rows.first[row, i] = steps.first[slot, env]
            rows.previous[row, i] = -1 if steps.first[slot, env] else before * envs + env
            rows.step[row, i] = True
            row += 1
            if steps.final[slot, env] >= 0 and row < count:
                rows.place[row, i] = rows.previous[row, i] = slot * envs + env
                rows.final[row, i] = steps.final[slot, env]
                rows.first[row, i] = rows.step[row, i] = False
                row += 1
            slot = slot + 1 if slot + 1 < slots else 0
        for row in range(count):
            total, discount, k = 0.0, 1.0, 0
            ended = False
            while k < n and row + k < count and rows.step[row + k, i] and not ended:
                place = rows.place[row + k, i]
                total += discount * steps.reward[place // envs, env]
                discount *= gamma
                ended = steps.final[place // envs, env] >= 0
                if ended and steps.terminated[place // envs, env]:
                    discount = 0.0
                k += 1
            rows.reward[row, i], rows.discount[row, i] = total, discount
            rows.following[row, i] = row + k


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

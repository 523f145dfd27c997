"""Compiled expansion and rating of tree nodes.

What `Search.observe` does for a wave in batches is done here node by node, to the same
bits: the same kernels, the same numbers drawn, the same order of adding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.core.compiling.jit import kernel_inline
from plangym_ext.planners.rollouts.playouts import legal_action
from plangym_ext.planners.simulator import SimulatorFunctions
from plangym_ext.planners.trees.tree import OPEN, TERMINATED, TRUNCATED, Array, Tree, restrict_prior


class Job(NamedTuple):
    """Settings and counters of compiled waves, for B trees."""

    wave_size: int
    num_simulations: int
    max_model_steps: int  # -1: no limit
    cost: int  # most steps that one simulation takes
    rollouts: int  # most rollouts that one simulation takes
    discount: float
    powers: npt.NDArray[np.float64]  # [D + 1] of the discount
    first_action: int
    depth: int  # D, steps of a rollout
    num_rollouts: int
    own: Any  # of the wave, for one thread; None if it needs nothing
    done: npt.NDArray[np.int64]  # [B] simulations, counted up
    full: npt.NDArray[np.bool_]  # [B]
    counts: npt.NDArray[np.int64]  # [4, B] model steps, expansions, evaluator rows, restores
    draws: Array  # [B, K, D] numbers for at most K rollouts, see `play_out`
    drawn: npt.NDArray[np.int64]  # [B] rollouts that there are numbers for, at most K
    used: npt.NDArray[np.int64]  # [B] of these
    wave: npt.NDArray[np.int32]  # [B, W] leaves that are in flight
    left: npt.NDArray[np.bool_]  # [B] whether the next wave is left to the search
    counts_before: npt.NDArray[np.int64]  # [4, B] before the wave
    rewards: npt.NDArray[np.float64]  # [lanes, D]
    legal: npt.NDArray[np.bool_]  # [lanes, A] where a rollout has come to


class Places(NamedTuple):
    """Positions of states, in the form of the simulator's functions."""

    context: Any
    nodes: Any  # row b * N + n is node n of tree b
    scratch: Any  # one row per lane


@kernel_inline
def allowance(job: Job, b: int) -> int:
    """Return how many simulations tree b may begin, at most a wave."""
    left = min(job.wave_size, job.num_simulations - job.done[b])
    if job.max_model_steps >= 0:
        left = min(left, (job.max_model_steps - job.counts[0, b]) // job.cost)
    return left


def make_observe(
    functions: SimulatorFunctions, value: Callable[[Any], float] | None, has_masks: bool
) -> Callable[..., bool]:
    """Return `observe(tree, job, places, b, node, lane) -> bool`, to be compiled.

    It steps into a pending node, rates it if the episode continues, and writes the results. If it
    comes to a number that is infinite or none, it says False, and the node is to be observed by
    `Search.observe`, which knows whether that is an error, and whose.

    Args:
        functions: the simulator's.
        value: of an observation `[*obs]`; None: everything is worth 0.
        has_masks: whether states allow some actions only.
    """
    copy, advance, seal = functions.copy, functions.advance, functions.seal
    can_observe, mask, swaps = functions.can_observe, functions.mask, functions.swaps
    value_of = make_value(functions, value)
    rate = make_rate(value_of, make_rollout(functions, value_of, has_masks))

    def observe_node(tree: Tree, job: Job, places: Any, b: int, node: int, lane: int) -> bool:
        first = b * tree.parent.shape[1]
        row = first + node
        copy(places.nodes, first + tree.parent[b, node], places.nodes, row)
        action = job.first_action + np.int64(tree.action[b, node])
        reward, over, cut = advance(places.context, places.nodes, row, action, lane)
        seal(places.context, places.nodes, row)
        mask(places.context, lane, tree.legal[b, node])
        # Before a rollout uses the lane.
        sign = -1.0 if swaps(places.context, lane) else 1.0
        if not np.isfinite(reward) or not can_observe(places.context, places.nodes, row, lane):
            return False
        rated = 0.0 if over else rate(tree, job, places, b, node, cut, lane)
        if not np.isfinite(rated):
            return False
        tree.kind[b, node] = TERMINATED if over else TRUNCATED if cut else OPEN
        tree.reward[b, node] = reward
        tree.discount[b, node] = 0.0 if over else sign * job.discount
        tree.value[b, node] = rated
        for a in range(tree.prior.shape[2]):
            tree.prior[b, node, a] = 1.0 / tree.prior.shape[2]
        if has_masks and not over:
            restrict_prior(tree, b, node)
        job.counts[0, b] += 1
        job.counts[1, b] += 1
        job.counts[3, b] += 1
        return True

    return observe_node


def make_rate(
    value_of: Callable[..., float], rollout: Callable[..., float]
) -> Callable[..., float]:
    """Return `rate(tree, job, places, b, node, cut, lane) -> float`: as `Rater.rate` of a leaf."""
    has_value = value_of is not _nothing

    def rate(tree: Tree, job: Job, places: Any, b: int, node: int, cut: bool, lane: int) -> float:
        rated = 0.0
        if has_value:
            job.counts[2, b] += 1
            rated = value_of(places, places.nodes, b * tree.parent.shape[1] + node, lane)
        if cut or job.depth == 0:
            return rated
        # One place that calls it: it is part of whatever calls it. -0.0 + x is x, of 0.0 too.
        total = -0.0
        for _ in range(job.num_rollouts):
            total += rollout(tree, job, places, b, node, lane)
        # An invalid value is an error, even where rollouts give it a weight of 0.
        return total / job.num_rollouts + (0.0 * rated)

    return rate


def make_rollout(
    functions: SimulatorFunctions, value_of: Callable[..., float], has_masks: bool
) -> Callable[..., float]:
    """Return `rollout(tree, job, places, b, node, lane) -> float`.

    That is the discounted return of one rollout, not a number if any of it is invalid.
    """
    has_value = value_of is not _nothing
    copy, advance, mask = functions.copy, functions.advance, functions.mask
    can_observe, swaps = functions.can_observe, functions.swaps
    choose = legal_action if has_masks else _itself

    def rollout(tree: Tree, job: Job, places: Any, b: int, node: int, lane: int) -> float:
        numbers, rewards = job.draws[b, job.used[b]], job.rewards[lane]
        job.used[b] += 1
        copy(places.nodes, b * tree.parent.shape[1] + node, places.scratch, lane)
        legal = job.legal[lane]
        if has_masks:
            for a in range(legal.size):
                legal[a] = tree.legal[b, node, a]
        steps, over, cut = 0, False, False
        # Returns are those of the player who moves in the leaf.
        sign = 1.0
        while steps < job.depth and not (over or cut):
            action = choose(numbers[steps], legal)
            if action < 0:
                break
            reward, over, cut = advance(
                places.context, places.scratch, lane, action + job.first_action, lane
            )
            rewards[steps] = sign * reward
            if swaps(places.context, lane):
                sign = -sign
            steps += 1
            if has_masks:
                mask(places.context, lane, legal)
        if not can_observe(places.context, places.scratch, lane, lane):
            return np.nan
        ret = 0.0
        for t in range(steps - 1, -1, -1):
            ret = rewards[t] + job.discount * ret
        if has_value:
            job.counts[2, b] += 1
            tail = sign * value_of(places, places.scratch, lane, lane)
            ret += 0.0 * tail if over else job.powers[steps] * tail
        job.counts[0, b] += steps
        # With masks batches go step by step, and restore as often.
        job.counts[3, b] += steps if has_masks else 1
        return ret

    return rollout


def make_value(
    functions: SimulatorFunctions, value: Callable[[Any], float] | None
) -> Callable[..., float]:
    """Return `value_of(places, rows, row, lane) -> float`, from a row's observation."""
    observe = functions.observe
    if value is None:
        return _nothing
    seen_value = value

    def value_of(places: Any, rows: Any, row: int, lane: int) -> float:
        observe(places.context, rows, row, lane)
        return seen_value(places.context.obs[lane])

    return value_of


def _itself(number: int, legal: Any) -> int:  # noqa: ARG001 - as `legal_action`
    """Return the action: where every action is legal, numbers are actions."""
    return number


def _nothing(places: Any, rows: Any, row: int, lane: int) -> float:  # noqa: ARG001 - as `value_of`
    """Return 0, the value of everything where no function rates leaves."""
    return 0.0

"""Playing on from states, at random or by a policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from plangym_ext.planners.base import Rng, SearchModel, States, action_masks, discrete_actions
from plangym_ext.planners.rating import Evaluator, check_prior, evaluate
from plangym_ext.planners.tree import Array

# obs [L, *obs] -> [L, A] probabilities
Policy = Callable[[Any], npt.ArrayLike]


class Starts(NamedTuple):
    """n states to play on from, grouped by the plan that wants it."""

    rows: npt.NDArray[np.integer[Any]]  # [n] plan of each, ascending
    states: States  # [n, S]
    obs: Any  # [n, *obs]; only a policy looks at it
    first: npt.NDArray[np.int64] | None = None  # [n] index of the first action; None: drawn too


class Playouts(NamedTuple):
    """What came of n states."""

    first: npt.NDArray[np.int64]  # [n] index of the first action
    rewards: npt.NDArray[np.float64]  # [n, depth], zero after an ending
    obs: Any  # [n, *obs] after the last step taken
    terminateds: npt.NDArray[np.bool_]  # [n]
    steps: npt.NDArray[np.int32]  # [n] steps taken
    restores: npt.NDArray[np.int64]  # [n]
    evaluator_rows: npt.NDArray[np.int64]  # [n] observations shown to the policy


def play_out(
    model: SearchModel, starts: Starts, depth: int, rngs: Sequence[Rng], policy: Policy | None
) -> Playouts:
    """Play `depth` steps from every state, or until an ending.

    What becomes of a state depends on the states of the same plan and on
    `rngs[its row]` alone.

    Args:
        model: what to step.
        starts: where to begin; at least one.
        depth: most steps, at least 1.
        rngs: one generator per plan.
        policy: draws the actions; None: uniformly, in one `rollout_batch`, without
            regard to `action_mask`.
    """
    if policy is not None:
        return _by_policy(model, starts, depth, rngs, policy)
    num_actions, origin = discrete_actions(model.action_space, "rollouts")
    counts = np.bincount(starts.rows)
    actions = np.concatenate(
        [
            rngs[b].integers(num_actions, size=(counts[b], depth))
            for b in np.flatnonzero(counts).tolist()
        ]
    )
    if starts.first is not None:
        actions[:, 0] = starts.first
    out = model.rollout_batch(actions + origin, starts.states)
    ones = np.ones(len(actions), np.int64)
    return Playouts(actions[:, 0], out.rewards, out.obs, out.terminateds, out.steps, ones, 0 * ones)


def _by_policy(
    model: SearchModel, starts: Starts, depth: int, rngs: Sequence[Rng], policy: Policy
) -> Playouts:
    """Play step by step: what is done depends on what is seen."""
    num_actions, origin = discrete_actions(model.action_space, "rollouts")
    n = len(starts.rows)
    first, rewards = np.zeros(n, np.int64), np.zeros((n, depth))
    over, steps = np.zeros(n, np.bool_), np.zeros(n, np.int32)
    asked = np.zeros(n, np.int64)
    last = np.array(starts.obs)
    alive, states, obs = np.arange(n), starts.states, starts.obs
    legal = np.ones((n, num_actions), np.bool_)
    for t in range(depth):
        if t == 0 and starts.first is not None:
            actions = starts.first
        else:
            prior = check_prior(policy(obs), len(alive), num_actions)
            actions = draw(np.where(legal, prior, 0.0), starts.rows[alive], rngs)
            asked[alive] += 1
        if t == 0:
            first[:] = actions
        out = model.step_batch(actions + origin, states)
        rewards[alive, t], last[alive] = out.rewards, out.obs
        over[alive], steps[alive] = out.terminateds, t + 1
        ended = np.asarray(out.terminateds) | np.asarray(out.truncateds)
        go_on = np.flatnonzero(~ended)
        if go_on.size == 0:
            break
        legal = action_masks(out.infos, ended, num_actions)[go_on]
        alive, states, obs = alive[go_on], out.states[go_on], out.obs[go_on]
    return Playouts(first, rewards, last, over, steps, steps.astype(np.int64), asked)


def draw(
    weights: npt.NDArray[Any], rows: npt.NDArray[np.integer[Any]], rngs: Sequence[Rng]
) -> npt.NDArray[np.int64]:
    """Draw one action per row of `weights` `[n, A]`, each plan's from its generator."""
    counts = np.bincount(rows)
    uniform = np.concatenate([rngs[b].random(counts[b]) for b in np.flatnonzero(counts).tolist()])
    bounds = np.cumsum(weights, axis=1, dtype=np.float64)
    # The last action with any weight, should rounding leave the draw above all bounds.
    last = weights.shape[1] - 1 - np.argmax(weights[:, ::-1] > 0, axis=1)
    return np.minimum((bounds <= (uniform * bounds[:, -1])[:, None]).sum(axis=1), last)


def returns_of(
    out: Playouts, discount: float, evaluator: Evaluator | None, num_actions: int
) -> npt.NDArray[np.float64]:
    """Return `[n]` discounted returns, bootstrapped by the evaluator if there is one.

    Every last observation is evaluated, so that the number of rows does not depend
    on how the playouts end; what was terminated counts 0.
    """
    returns = np.empty(len(out.steps))
    discounted_sums(np.asarray(out.rewards, np.float64), discount, returns)
    if evaluator is not None:
        _, tail = evaluate(evaluator, out.obs, len(returns), num_actions)
        returns += np.where(out.terminateds, 0.0, discount**out.steps * tail)
    return returns


@numba.njit(cache=True, nogil=True)
def discounted_sums(rewards: Array, discount: float, out: Array) -> None:
    """Write sum over t of discount**t * rewards[i, t] to out[i].

    A loop, because a matrix product may add in another order when it is given
    another number of rows, and row i must depend on row i alone.

    Args:
        rewards: `[L, H]` float64, zero after an ending.
        discount: in [0, 1].
        out: `[L]` float64, written.
    """
    for i in range(rewards.shape[0]):
        ret = 0.0
        for t in range(rewards.shape[1] - 1, -1, -1):
            ret = rewards[i, t] + discount * ret
        out[i] = ret

"""Rating leaves by playing on at random."""

from __future__ import annotations

from collections.abc import Sequence

import numba
import numpy as np
import numpy.typing as npt

from plangym_ext.planners.base import Rng, SearchModel, discrete_actions
from plangym_ext.planners.rating import Evaluator, Leaves, Rater, Rating, evaluate, unrated
from plangym_ext.planners.tree import Array


class Rollouts(Rater):
    """The mean discounted return of uniformly random actions from the leaf on.

    Rollouts end at an ending or after `depth` steps. What would follow counts
    as nothing, or, with an evaluator, as its value of the last observation
    unless that is terminal. A truncated leaf is not stepped from: it is worth
    the evaluator's value of it, or nothing. Rollouts do not look at `action_mask`.
    """

    reads_states = True

    def __init__(
        self, depth: int, num_rollouts: int, discount: float, evaluator: Evaluator | None = None
    ):
        self.depth = depth
        self.num_rollouts = num_rollouts
        self.discount = discount
        self.evaluator = evaluator
        self.rates_roots = evaluator is not None
        self.most_steps = depth * num_rollouts

    def rate(self, model: SearchModel, leaves: Leaves, rngs: Sequence[Rng]) -> Rating:
        """Play all rollouts of the wave in one `rollout_batch`."""
        num_actions, first = discrete_actions(model.action_space, "Rollouts")
        count = len(leaves.rows)
        rating = unrated(count)
        if self.evaluator is not None:
            prior, value = evaluate(self.evaluator, leaves.obs, count, num_actions)
            rating = rating._replace(prior=prior, value=value)
            rating.evaluator_rows[:] = 1
        open_leaves = np.flatnonzero(~leaves.truncated)
        if open_leaves.size == 0:
            return rating
        assert leaves.states is not None
        of = np.repeat(open_leaves, self.num_rollouts)
        actions = self._draw(np.bincount(leaves.rows[of]), num_actions, rngs) + first
        out = model.rollout_batch(actions, leaves.states[of])
        returns = np.empty(len(of))
        discounted_sums(out.rewards, self.discount, returns)
        if self.evaluator is not None:
            # Every last observation is evaluated, so that the number of rows
            # does not depend on how the rollouts end; terminal ones count 0.
            _, tail = evaluate(self.evaluator, out.obs, len(of), num_actions)
            returns += np.where(out.terminateds, 0.0, self.discount**out.steps * tail)
            rating.evaluator_rows[open_leaves] += self.num_rollouts
        rating.value[open_leaves] = _row_means(returns, self.num_rollouts)
        rating.model_steps[open_leaves] = out.steps.reshape(-1, self.num_rollouts).sum(axis=1)
        rating.restores[open_leaves] = self.num_rollouts
        return rating

    def _draw(
        self, counts: npt.NDArray[np.integer], num_actions: int, rngs: Sequence[Rng]
    ) -> npt.NDArray[np.int64]:
        """Draw `[counts.sum(), depth]` action indices, each tree's from its generator."""
        return np.concatenate(
            [
                rngs[b].integers(num_actions, size=(counts[b], self.depth))
                for b in np.flatnonzero(counts).tolist()
            ]
        )


def _row_means(returns: npt.NDArray[np.float64], group: int) -> npt.NDArray[np.float64]:
    """Average groups of consecutive entries, each in its own order of adding."""
    grouped = returns.reshape(-1, group)
    total = grouped[:, 0].copy()
    for column in range(1, group):
        total += grouped[:, column]
    return total / group


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

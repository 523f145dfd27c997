"""RolloutRater: leaf values as mean rollout returns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import rows_of
from plangym_ext.planners.masks import discrete_actions
from plangym_ext.planners.rating import (
    Evaluator,
    EvaluatorRater,
    Leaves,
    Policy,
    Rater,
    Rating,
    ZeroRater,
    check_finite,
    evaluate,
    unrated,
    value_code,
)
from plangym_ext.planners.rollouts.playouts import Starts, play_out, returns_of
from plangym_ext.planners.simulator import RaterCode, Rng, SearchModel


class RolloutRater(Rater):
    """Rates a leaf by the mean discounted return of rollouts from it.

    Rollouts end at an ending or after `depth` steps. What would follow counts
    as nothing, or, with an evaluator, as its value of the last observation
    unless that is terminal. A truncated leaf is not stepped from: it is worth
    the evaluator's value of it, or nothing. Without a policy actions are drawn
    uniformly from those that `action_mask` allows.
    """

    reads_states = True

    def __init__(
        self,
        depth: int,
        num_rollouts: int,
        discount: float,
        evaluator: Evaluator | None = None,
        policy: Policy | None = None,
    ):
        self.depth = depth
        self.num_rollouts = num_rollouts
        self.discount = discount
        self.evaluator = evaluator
        self.policy = policy
        self.rates_roots = evaluator is not None
        self.most_steps = depth * num_rollouts

    def code(self) -> RaterCode | None:
        """Return code for random rollouts; None with a policy, or an evaluator without code."""
        value = None if self.evaluator is None else value_code(self.evaluator)
        # Functions of Python cannot be called from compiled code.
        if self.policy is not None or (self.evaluator is not None and value is None):
            return None
        return RaterCode(self.depth, self.num_rollouts, value)

    def rate(self, model: SearchModel, leaves: Leaves, rngs: Sequence[Rng]) -> Rating:
        """Play all rollouts of the wave together."""
        num_actions, _ = discrete_actions(model.action_space, "Rollouts")
        count = len(leaves.rows)
        rating = unrated(count)
        if self.evaluator is not None:
            asked = self.evaluator, leaves.obs, count, num_actions
            prior, value = evaluate(*asked, legal=leaves.legal)
            # A copy, which is written to below: it may be the evaluator's own array.
            rating = rating._replace(prior=prior, value=value.copy())
            rating.evaluator_rows[:] = 1
        # A truncated leaf has no next step: its future is a guess of the evaluator's, or 0.
        open_leaves = np.flatnonzero(~leaves.truncated)
        if open_leaves.size == 0:
            return rating
        assert leaves.states is not None
        # The rollouts of a leaf lie side by side, and are averaged in that order.
        of = np.repeat(open_leaves, self.num_rollouts)
        # A rollout that cannot step has the leaf's observation as its last one.
        asks = self.policy is not None or self.evaluator is not None
        seen = rows_of(leaves.obs, of) if asks else None
        legal = None if leaves.legal is None else leaves.legal[of]
        starts = Starts(leaves.rows[of], leaves.states[of], seen, legal=legal)
        out = play_out(model, starts, self.depth, rngs, self.policy)
        returns = returns_of(out, self.discount, self.evaluator, num_actions)

        def total(numbers: npt.NDArray[np.integer]) -> npt.NDArray[np.integer]:
            return numbers.reshape(-1, self.num_rollouts).sum(axis=1)

        means = _row_means(returns, self.num_rollouts)
        rating.value[open_leaves] = check_finite("search: leaf values of Rollouts", means)
        rating.model_steps[open_leaves] = total(out.steps)
        rating.restores[open_leaves] = total(out.restores)
        rating.evaluator_rows[open_leaves] += total(out.evaluator_rows)
        if self.evaluator is not None:
            rating.evaluator_rows[open_leaves] += self.num_rollouts
        return rating


def _row_means(returns: npt.NDArray[np.float64], group: int) -> npt.NDArray[np.float64]:
    """Average groups of consecutive entries, each in its own order of adding."""
    grouped = returns.reshape(-1, group)
    # Column by column, not `mean(axis=1)`: numpy's order of adding depends on the shape, and a
    # leaf's value must not depend on how many others are in the wave.
    total = grouped[:, 0].copy()
    for column in range(1, group):
        total += grouped[:, column]
    return total / group


def default_depth(evaluator: Evaluator | None) -> int:
    """Return the default number of rollout steps: none with an evaluator."""
    return 8 if evaluator is None else 0


def leaf_rater(rollouts: RolloutRater, evaluator: Evaluator | None, num_actions: int) -> Rater:
    """Return the rollout rater if rollouts have steps, else the evaluator's, else the zero rater.

    Args:
        rollouts: perhaps of no steps.
        evaluator: rates leaves if there are no rollouts.
        num_actions: A.
    """
    return rollouts if rollouts.depth > 0 else node_rater(evaluator, num_actions)


def node_rater(evaluator: Evaluator | None, num_actions: int) -> Rater:
    """Return the evaluator's rater, or the zero rater."""
    return ZeroRater() if evaluator is None else EvaluatorRater(evaluator, num_actions)

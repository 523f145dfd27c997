"""Which leaf rater a planner's options describe."""

from __future__ import annotations

from plangym_ext.planners.rating import Evaluator, EvaluatorRater, Rater, ZeroRater
from plangym_ext.planners.rollouts.rollouts import Rollouts


def default_depth(evaluator: Evaluator | None) -> int:
    """How many steps rollouts have if nobody says so: none where an evaluator rates leaves."""
    return 8 if evaluator is None else 0


def leaf_rater(rollouts: Rollouts, evaluator: Evaluator | None, num_actions: int) -> Rater:
    """Return the rollouts if they have any steps, else the evaluator, else nothing.

    Args:
        rollouts: perhaps of no steps.
        evaluator: rates leaves if there are no rollouts.
        num_actions: A.
    """
    if rollouts.depth > 0:
        return rollouts
    if evaluator is not None:
        return EvaluatorRater(evaluator, num_actions)
    return ZeroRater()

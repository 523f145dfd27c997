"""Reading the plans off the roots of the trees of a search."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from plangym_ext.planners.final_action import sampled
from plangym_ext.planners.lockstep.search import Search
from plangym_ext.planners.plans import Plan
from plangym_ext.planners.request import no_legal_action
from plangym_ext.planners.trees.export import exported
from plangym_ext.planners.trees.gumbel import gumbel_summary
from plangym_ext.planners.trees.tree import NO_ACTION, ROOT, summarize


def tree_plans(search: Search, seconds: float) -> list[Plan]:
    """Return the B plans of a search.

    Args:
        search: no wave of it is in flight.
        seconds: what it took; each plan has an equal share of them.

    Raises:
        NoLegalAction: a root has none.
    """
    tree, rules = search.tree, search.rules
    batch, _, num_actions = tree.children.shape
    visits = np.empty((batch, num_actions), np.int64)
    q = np.empty((batch, num_actions))
    best = np.empty(batch, np.int64)
    summarize(tree, visits, q, best)
    if (best == NO_ACTION).any():
        raise no_legal_action("search", np.flatnonzero(best == NO_ACTION))
    best, weights = _chosen(search, visits, best)
    # Numbers of Python's all at once: one by one they take as long as a fast search.
    actions = (search.first_action + best).tolist()
    values, budgets = tree.q[:, ROOT].tolist(), search.costs.budgets(seconds)
    return [
        Plan(
            action=actions[b],
            value=values[b],
            budget=budgets[b],
            visits=visits[b],
            q=q[b],
            weights=weights[b],
            full=full,
            tree=exported(tree, b) if rules.return_tree else None,
        )
        for b, full in enumerate(search.cut_short().tolist())
    ]


def _chosen(
    search: Search, visits: npt.NDArray[np.int64], most_visited: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the actions `[B]` to play and a policy `[B, A]`.

    Args:
        search: whose rules say how they are chosen.
        visits: `[B, A]` of the roots' actions.
        most_visited: `[B]` the action with most of them.
    """
    best, weights = most_visited, visits / visits.sum(axis=1, keepdims=True)
    if search.halving is not None:
        _, _, scale, _, c_visit, c_scale = search.rules.selection
        gumbel_summary(search.tree, search.halving, scale, c_visit, c_scale, weights, best)
    elif search.rules.temperature > 0.0:
        pairs = zip(visits, search.rngs, strict=True)
        best = np.array([sampled(row, search.rules.temperature, rng) for row, rng in pairs])
    return best, weights

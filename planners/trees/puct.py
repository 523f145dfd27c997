"""PUCT: a mean return plus a bonus that follows the prior."""

from __future__ import annotations

import math

import numpy as np

from plangym_ext.core.jit import kernel_inline
from plangym_ext.planners.trees.scale import judge
from plangym_ext.planners.trees.tree import NO_ACTION, PENDING, ROOT, UNVISITED, Tree


@kernel_inline
def puct_action(
    tree: Tree, b: int, node: int, c_puct: float, scale: int, fpu_reduction: float
) -> int:
    """Return the legal action with the highest PUCT score, NO_ACTION if none.

    score(a) = norm(q_a) + c * P_a * sqrt(n) / (1 + n_a), where n_a counts
    observed and unobserved simulations and n is their sum over actions (at
    least 1, so that the prior decides the first choice). An action without a
    return yet is judged by the mean of its node, less `fpu_reduction`. An
    action whose child is pending cannot be taken again. `judge` says what norm is.

    Source: Silver et al. 2017, "Mastering the game of Go without human
    knowledge"; unobserved counts from Liu et al. 2020.
    """
    mean, origin, width = judge(tree, b, node, scale)
    # A node's own creation is no choice made in it; the root has none.
    tried = tree.visits[b, node] + tree.unobserved[b, node] - (1 if node != ROOT else 0)
    bonus = c_puct * math.sqrt(max(1, tried))
    best, best_score = NO_ACTION, -np.inf
    for i in range(tree.order.shape[1]):
        a = tree.order[b, i]
        if not tree.legal[b, node, a]:
            continue
        child = tree.children[b, node, a]
        count = 0
        score = (mean - origin) * width - fpu_reduction
        if child != UNVISITED:
            if tree.kind[b, child] == PENDING:
                continue
            count = tree.visits[b, child] + tree.unobserved[b, child]
            if tree.visits[b, child] > 0:
                score = (np.float64(tree.q[b, child]) - origin) * width
        score += bonus * np.float64(tree.prior[b, node, a]) / (1.0 + count)
        if score > best_score:
            best, best_score = a, score
    return best

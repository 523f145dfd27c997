"""UCT: a mean return plus a bonus for what has been tried little."""

from __future__ import annotations

import math

import numpy as np

from plangym_ext.core.jit import kernel_inline
from plangym_ext.planners.trees.scale import judge
from plangym_ext.planners.trees.tree import NO_ACTION, PENDING, ROOT, UNVISITED, Tree


@kernel_inline
def uct_action(tree: Tree, b: int, node: int, c: float, scale: int) -> int:
    """Return the legal action with the highest UCB1 score, NO_ACTION if none.

    score(a) = norm(q_a) + c * sqrt(ln(n) / n_a), where n_a counts observed and
    unobserved simulations and n is their sum over actions. Actions that were
    never tried come first. With returns in [0, 1] the theory's c is sqrt(2).

    Source: Kocsis & Szepesvari 2006, "Bandit based Monte-Carlo Planning".
    """
    mean, origin, width = judge(tree, b, node, scale)
    tried = tree.visits[b, node] + tree.unobserved[b, node] - (1 if node != ROOT else 0)
    spread = c * math.sqrt(math.log(max(1, tried)))
    best, best_score = NO_ACTION, -np.inf
    for i in range(tree.order.shape[1]):
        a = tree.order[b, i]
        if not tree.legal[b, node, a]:
            continue
        child = tree.children[b, node, a]
        if child == UNVISITED:
            return a
        if tree.kind[b, child] == PENDING:
            continue
        # A child whose return is still out is judged by its node.
        q = np.float64(tree.q[b, child]) if tree.visits[b, child] > 0 else mean
        count = tree.visits[b, child] + tree.unobserved[b, child]
        score = (q - origin) * width + spread / math.sqrt(max(1, count))
        if score > best_score:
            best, best_score = a, score
    return best

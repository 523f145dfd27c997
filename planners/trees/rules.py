"""PUCT and UCT selection, value scaling, best branches, copy of one tree."""

from __future__ import annotations

import math

import numpy as np

from plangym_ext.core.compiling.jit import allocating_kernel, kernel_inline
from plangym_ext.planners.plans import SearchTree
from plangym_ext.planners.trees.tree import (
    NO_ACTION,
    PENDING,
    ROOT,
    TERMINATED,
    TRUNCATED,
    UNVISITED,
    Array,
    Tree,
)

# What returns are measured against.
SCALE_NONE, SCALE_TREE, SCALE_SIBLINGS = 0, 1, 2


@kernel_inline
def value_scale(tree: Tree, b: int, node: int, scale: int) -> tuple[float, float, float]:
    """Return the expected value of an untried action of the node, and the scale.

    norm(q) = (q - origin) * width maps [low, high] to [0, 1], and everything to 0
    where low equals high. The bounds are 0 and 1 (SCALE_NONE), all means in the
    tree (SCALE_TREE), or the means of the actions here and of the node itself
    (SCALE_SIBLINGS).

    Returns:
        mean: of the returns that went on from the node, its own rating included
            (not that of the root, which may have none).
        origin, width: see above.

    Source: bounds over the tree from Schrittwieser et al. 2020 (MuZero), appendix B.
    """
    low, high = np.inf, -np.inf
    total, weight = 0.0, 0.0
    # Its own rating is one of the returns, but at the root, which may never have been rated.
    if node != ROOT:
        total, weight = tree.value[b, node], 1.0
    for a in range(tree.children.shape[2]):
        child = tree.children[b, node, a]
        if child != UNVISITED and tree.visits[b, child] > 0:
            q = np.float64(tree.q[b, child])
            # `min` and `max` are functions to be compiled, one for each type.
            low, high = q if q < low else low, q if q > high else high
            total += tree.visits[b, child] * q
            weight += tree.visits[b, child]
    mean = total / weight if weight > 0.0 else tree.value[b, node]
    if scale == SCALE_SIBLINGS:
        low, high = mean if mean < low else low, mean if mean > high else high
    elif scale == SCALE_TREE:
        low, high = np.float64(tree.q_low[b]), np.float64(tree.q_high[b])
    else:
        low, high = 0.0, 1.0
    # One division per node instead of one per action; where all means are equal the width
    # of 0 leaves the choice to the bonus.
    width = 1.0 / (high - low) if high > low else 0.0
    return mean, low if width > 0.0 else 0.0, width


@kernel_inline
def puct_action(
    tree: Tree, b: int, node: int, c_puct: float, scale: int, fpu_reduction: float
) -> int:
    """Return the legal action with the highest PUCT score, NO_ACTION if none.

    score(a) = norm(q_a) + c * P_a * sqrt(n) / (1 + n_a), where n_a counts
    observed and unobserved simulations and n is their sum over actions (at
    least 1, so that the prior decides the first choice). An action without a
    return yet is judged by the mean of its node, less `fpu_reduction`. An
    action whose child is pending cannot be taken again. `value_scale` says what norm is.

    Source: Silver et al. 2017, "Mastering the game of Go without human
    knowledge"; unobserved counts from Liu et al. 2020.
    """
    mean, origin, width = value_scale(tree, b, node, scale)
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
        # Without a return yet, the mean of the node stands for its own.
        score = (mean - origin) * width - fpu_reduction
        if child != UNVISITED:
            # In flight: the model has been asked about this child already.
            if tree.kind[b, child] == PENDING:
                continue
            count = tree.visits[b, child] + tree.unobserved[b, child]
            if tree.visits[b, child] > 0:
                score = (np.float64(tree.q[b, child]) - origin) * width
        score += bonus * np.float64(tree.prior[b, node, a]) / (1.0 + count)
        # Strictly greater: among equals the first in the tree's order stays.
        if score > best_score:
            best, best_score = a, score
    return best


@kernel_inline
def uct_action(tree: Tree, b: int, node: int, c: float, scale: int) -> int:
    """Return the legal action with the highest UCB1 score, NO_ACTION if none.

    score(a) = norm(q_a) + c * sqrt(ln(n) / n_a), where n_a counts observed and
    unobserved simulations and n is their sum over actions. Actions that were
    never tried come first. With returns in [0, 1] the theory's c is sqrt(2).

    Source: Kocsis & Szepesvari 2006, "Bandit based Monte-Carlo Planning".
    """
    mean, origin, width = value_scale(tree, b, node, scale)
    tried = tree.visits[b, node] + tree.unobserved[b, node] - (1 if node != ROOT else 0)
    spread = c * math.sqrt(math.log(max(1, tried)))
    best, best_score = NO_ACTION, -np.inf
    for i in range(tree.order.shape[1]):
        a = tree.order[b, i]
        if not tree.legal[b, node, a]:
            continue
        child = tree.children[b, node, a]
        # Never tried: its bonus is infinite.
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


def exported(tree: Tree, b: int) -> SearchTree:
    """Return a copy of the nodes of tree b that are in use."""
    n = int(tree.size[b])
    prior = np.ones(n, np.float32)
    # A node's prior lies at its parent, by action; the root has none and shows 1.
    prior[1:] = tree.prior[b, tree.parent[b, 1:n], tree.action[b, 1:n]]
    reward = tree.reward[b, :n].copy()
    # In a tree that was kept the root still has the reward of the move that led to it.
    reward[ROOT] = 0.0
    return SearchTree(
        parent=tree.parent[b, :n].copy(),
        action=tree.action[b, :n].copy(),
        visits=tree.visits[b, :n].copy(),
        q=tree.q[b, :n].copy(),
        reward=reward,
        value=tree.value[b, :n].copy(),
        prior=prior,
        ended=np.isin(tree.kind[b, :n], (TERMINATED, TRUNCATED)),
    )


@allocating_kernel
def best_branches(tree: Tree, q: Array) -> None:
    """Write the highest return of any branch that begins with each action of a root.

    A branch ends in a node without children, whose rating is what follows it. The discount of an
    edge on which the other player moves next is negative, so that the best return is the best for
    the player who moves.

    Args:
        tree: the trees; nothing may be in flight.
        q: `[B, A]` float64, written; NaN where an action was never tried.
    """
    best = np.empty(tree.parent.shape[1])
    for b in range(len(tree.size)):
        # A parent comes before its children.
        for node in range(tree.size[b] - 1, -1, -1):
            top, known = tree.value[b, node], False
            for a in range(tree.children.shape[2]):
                child = tree.children[b, node, a]
                if child == UNVISITED or tree.kind[b, child] == PENDING:
                    continue
                ret = tree.reward[b, child] + tree.discount[b, child] * best[child]
                if not known or ret > top:
                    top, known = ret, True
            best[node] = top
        for a in range(tree.children.shape[2]):
            child = tree.children[b, ROOT, a]
            q[b, a] = np.nan
            if child != UNVISITED and tree.kind[b, child] != PENDING:
                q[b, a] = tree.reward[b, child] + tree.discount[b, child] * best[child]

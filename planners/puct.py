"""Choosing leaves: PUCT over a wave of simulations that are still in flight."""

from __future__ import annotations

import math

import numba
import numpy as np

from plangym_ext.planners.tree import (
    NO_ACTION,
    OPEN,
    PENDING,
    ROOT,
    UNVISITED,
    Array,
    Tree,
    allocate,
)

# How q is brought to the scale of the prior's bonus.
SCALE_NONE, SCALE_TREE, SCALE_SIBLINGS = 0, 1, 2
# Why a descent found no leaf.
BLOCKED, FULL = -1, -2


@numba.njit(cache=True, nogil=True)
def puct_action(
    tree: Tree, b: int, node: int, c_puct: float, scale: int, fpu_reduction: float
) -> int:
    """Return the legal action with the highest PUCT score, NO_ACTION if none.

    score(a) = norm(q_a) + c * P_a * sqrt(n) / (1 + n_a), where n_a counts
    observed and unobserved simulations and n is their sum over actions (at
    least 1, so that the prior decides the first choice). An action without a
    return yet is judged by the mean of its node, less `fpu_reduction`. An
    action whose child is pending cannot be taken again.

    norm maps [low, high] to [0, 1], and everything to 0 where low equals high.
    The bounds are 0 and 1 (SCALE_NONE), all means in the tree (SCALE_TREE), or
    the means of the actions here and of the node itself (SCALE_SIBLINGS).

    Source: Silver et al. 2017, "Mastering the game of Go without human
    knowledge"; unobserved counts from Liu et al. 2020; bounds over the tree
    from Schrittwieser et al. 2020 (MuZero), appendix B.
    """
    low, high = np.inf, -np.inf
    total, weight = 0.0, 0.0
    if node != ROOT:
        total, weight = tree.value[b, node], 1.0
    for a in range(tree.children.shape[2]):
        child = tree.children[b, node, a]
        if child != UNVISITED and tree.visits[b, child] > 0:
            q = np.float64(tree.q[b, child])
            low, high = min(low, q), max(high, q)
            total += tree.visits[b, child] * q
            weight += tree.visits[b, child]
    mean = total / weight if weight > 0.0 else tree.value[b, node]
    if scale == SCALE_SIBLINGS:
        low, high = min(low, mean), max(high, mean)
    elif scale == SCALE_TREE:
        low, high = np.float64(tree.q_low[b]), np.float64(tree.q_high[b])
    else:
        low, high = 0.0, 1.0
    width = 1.0 / (high - low) if high > low else 0.0
    origin = low if width > 0.0 else 0.0
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


@numba.njit(cache=True, nogil=True)
def descend(tree: Tree, b: int, c_puct: float, scale: int, fpu_reduction: float) -> int:
    """Walk tree b from its root and return the leaf, as a pending new node.

    An ended node, or one without legal actions, is returned as it is: its
    value is known. BLOCKED means that the walk came to a node all of whose
    actions are in flight, FULL that a new node was wanted and there is no room.
    """
    node = ROOT
    while tree.kind[b, node] == OPEN:
        action = puct_action(tree, b, node, c_puct, scale, fpu_reduction)
        if action == NO_ACTION:
            for a in range(tree.order.shape[1]):
                if tree.legal[b, node, a]:
                    return BLOCKED
            return node
        child = tree.children[b, node, action]
        if child == UNVISITED:
            if tree.size[b] == tree.parent.shape[1]:
                return FULL
            return allocate(tree, b, node, action)
        node = child
    return node


@numba.njit(cache=True, nogil=True)
def select_wave(
    tree: Tree,
    limits: Array,
    c_puct: float,
    scale: int,
    fpu_reduction: float,
    rows: Array,
    leaves: Array,
) -> int:
    """Choose up to `limits[b]` leaves in every tree and return how many in all.

    Every choice is counted in `unobserved` along its path, which lowers the
    bonus of that path for the next one, so that a wave spreads over the tree
    as if its returns had come in and agreed with the means so far. A wave is
    cut short, rather than made to repeat itself, when a walk is blocked.

    Args:
        tree: the trees, nothing pending.
        limits: `[B]` int, how many leaves each tree may have.
        c_puct: weight of the prior's bonus.
        scale: SCALE_NONE, SCALE_TREE or SCALE_SIBLINGS.
        fpu_reduction: see `puct_action`.
        rows: `[L]` int32, L >= limits.sum(); written: the tree of each leaf.
        leaves: `[L]` int32, written: its node, in the order of choice.

    Source: Liu et al. 2020, "Watch the Unobserved: a simple approach to
    parallelizing Monte Carlo tree search".
    """
    count = 0
    for b in range(len(limits)):
        for _ in range(limits[b]):
            leaf = descend(tree, b, c_puct, scale, fpu_reduction)
            if leaf < 0:
                break
            rows[count], leaves[count] = b, leaf
            count += 1
            node = leaf
            while node != ROOT:
                tree.unobserved[b, node] += 1
                node = tree.parent[b, node]
            tree.unobserved[b, ROOT] += 1
    return count

"""Copying one tree out of the arrays of a search."""

from __future__ import annotations

import numpy as np

from plangym_ext.core.compiling.jit import allocating_kernel
from plangym_ext.planners.plans import SearchTree
from plangym_ext.planners.trees.tree import (
    PENDING,
    ROOT,
    TERMINATED,
    TRUNCATED,
    UNVISITED,
    Array,
    Tree,
)


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

    A branch ends in a node without children, whose rating is what follows it. The discount of
    an edge on which the other player moves next is negative, so that what is best is so for
    who moves.

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

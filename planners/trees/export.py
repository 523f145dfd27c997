"""Copy of one search tree out of a batch."""

from __future__ import annotations

import numpy as np

from plangym_ext.planners.plans import SearchTree
from plangym_ext.planners.trees.tree import ROOT, TERMINATED, TRUNCATED, Tree


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

"""Bringing returns to a scale on which one constant of exploration fits any env."""

from __future__ import annotations

import numpy as np

from plangym_ext.core.jit import kernel_inline
from plangym_ext.planners.trees.tree import ROOT, UNVISITED, Tree

# What returns are measured against.
SCALE_NONE, SCALE_TREE, SCALE_SIBLINGS = 0, 1, 2


@kernel_inline
def judge(tree: Tree, b: int, node: int, scale: int) -> tuple[float, float, float]:
    """Return what an untried action of the node is expected to give, and the scale.

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
    return mean, low if width > 0.0 else 0.0, width

"""Kernel for the best branch return below each root action."""

from __future__ import annotations

import numpy as np

from plangym_ext.core.compiling.jit import allocating_kernel
from plangym_ext.planners.trees.tree import PENDING, ROOT, UNVISITED, Array, Tree


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

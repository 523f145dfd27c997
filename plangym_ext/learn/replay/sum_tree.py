"""Sums and least masses over rows, kept in a binary tree so that drawing takes log time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.core.compiling.jit import kernel

ROOT = 1


class SumTree(NamedTuple):
    """A full binary tree: node n has the children 2n and 2n + 1, leaf i is node size + i.

    float64 throughout: in float32 the sums round so far that rows of no mass are drawn.
    A node is always computed from its two children, never changed by a difference, so it
    depends on the leaves alone and not on how they came to be.
    """

    sums: npt.NDArray[np.float64]  # [2 * size] masses below
    least: npt.NDArray[np.float64]  # [2 * size] least positive mass below, or infinity


def new_sum_tree(rows: int) -> SumTree:
    """Return a tree for so many rows, all of mass 0."""
    size = 1 << max(rows - 1, 0).bit_length()
    return SumTree(np.zeros(2 * size), np.full(2 * size, np.inf))


@kernel
def assign(tree: SumTree, places: Any, masses: Any) -> None:
    """Set the masses of rows, in place; of a row that comes twice the last one counts.

    Args:
        tree: to write to.
        places: `[N]` int64.
        masses: `[N]` float64, not negative.
    """
    size = len(tree.sums) // 2
    for i in range(len(places)):
        node = size + places[i]
        tree.sums[node] = masses[i]
        tree.least[node] = masses[i] if masses[i] > 0 else np.inf
        node //= 2
        while node >= ROOT:
            tree.sums[node] = tree.sums[2 * node] + tree.sums[2 * node + 1]
            tree.least[node] = min(tree.least[2 * node], tree.least[2 * node + 1])
            node //= 2


@kernel
def draw(tree: SumTree, targets: Any, places: Any) -> None:
    """Write the row that each target falls on: the first whose running sum exceeds it.

    Args:
        tree: with at least one positive mass.
        targets: `[N]` float64 in [0, sum of all masses).
        places: `[N]` int64, written.
    """
    size = len(tree.sums) // 2
    for i in range(len(targets)):
        node, left_over = ROOT, targets[i]
        while node < size:
            node *= 2
            # Subtracting rounds: what is left may exceed all there is on the right. Then
            # it is the last positive mass, and never one of the zeros after it.
            if left_over >= tree.sums[node] and tree.sums[node + 1] > 0:
                left_over -= tree.sums[node]
                node += 1
        places[i] = node - size

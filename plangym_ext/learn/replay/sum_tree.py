"""Sum tree over row priorities, for sampling in O(log n).

A full binary tree `[2 * size]`: node n has the children 2n and 2n + 1, leaf i is node size + i,
and a node is the sum of the masses below it. float64 throughout: in float32 the sums round so
far that rows of no mass are drawn. A node is always computed from its two children, never
changed by a difference, so it depends on the leaves alone and not on how they came to be.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.core.compiling.jit import kernel

ROOT = 1

SumTree = npt.NDArray[np.float64]  # [2 * size]


def new_sum_tree(rows: int) -> SumTree:
    """Return a tree for a number of rows, all of mass 0."""
    size = 1 << max(rows - 1, 0).bit_length()
    return np.zeros(2 * size)


def masses_of(tree: SumTree) -> npt.NDArray[np.float64]:
    """Return the masses `[size]` of all rows there is room for, a view."""
    return tree[len(tree) // 2 :]


def drawn_in_parts(tree: SumTree, count: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return `[N]` rows by stratified sampling of the sum, which is above 0.

    So fewer rows come twice than by as many draws of all.
    """
    # `[N]`, one number in each of N equal parts of [0, N).
    parts = np.arange(count) + rng.random(count)
    places = np.empty(count, np.int64)
    draw(tree, parts * (tree[ROOT] / count), places)
    return places


def importance_weights(
    tree: SumTree, places: npt.NDArray[np.int64], beta: float
) -> npt.NDArray[np.float32]:
    """Return `[N]` weights (m_least / m_i)^β of rows that were drawn, with the least mass of them.

    (1 / (N P(i)))^β over the largest of these, in which N and the sum of all masses cancel. That
    of the batch, not of all rows: among these there may be one of hardly any mass, beside which
    every other weighs next to nothing.

    Source: Schaul et al. 2016, "Prioritized experience replay", section 3.4.
    """
    masses = masses_of(tree)[places]
    weights: npt.NDArray[np.float32] = ((masses.min() / masses) ** beta).astype(np.float32)
    return weights


@kernel
def assign(tree: SumTree, places: Any, masses: Any) -> None:
    """Set the masses of rows, in place; of a row that comes twice the last one counts.

    Args:
        tree: to write to.
        places: `[N]` int64.
        masses: `[N]` float64, not negative.
    """
    size = len(tree) // 2
    for i in range(len(places)):
        node = size + places[i]
        tree[node] = masses[i]
        node //= 2
        while node >= ROOT:
            tree[node] = tree[2 * node] + tree[2 * node + 1]
            node //= 2


@kernel
def draw(tree: SumTree, targets: Any, places: Any) -> None:
    """Write the row that each target falls on: the first whose running sum exceeds it.

    Args:
        tree: with at least one positive mass.
        targets: `[N]` float64 in [0, sum of all masses).
        places: `[N]` int64, written.
    """
    size = len(tree) // 2
    for i in range(len(targets)):
        node, left_over = ROOT, targets[i]
        while node < size:
            node *= 2
            # Subtracting rounds: what is left may exceed all there is on the right. Then
            # it is the last positive mass, and never one of the zeros after it.
            if left_over >= tree[node] and tree[node + 1] > 0:
                left_over -= tree[node]
                node += 1
        places[i] = node - size

"""Kernels around the model step of a wave: what numpy does in a dozen small calls.

With a few dozen rows each call of numpy's costs more than its work, and all of them
together more than env and network.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.core.jit import kernel
from plangym_ext.planners.trees.tree import PENDING

Array = npt.NDArray[Any]


@kernel
def pending(kind: Array, rows: Array, leaves: Array) -> tuple[Array, Array]:
    """Return those of L leaves that the model has not answered for, and their trees.

    Args:
        kind: `[B, N]` uint8 of the trees.
        rows: `[L]` int32, the tree of each leaf.
        leaves: `[L]` int32, its node.
    """
    new_rows, new_leaves = np.empty_like(rows), np.empty_like(leaves)
    count = 0
    for i in range(len(rows)):
        if kind[rows[i], leaves[i]] == PENDING:
            new_rows[count], new_leaves[count] = rows[i], leaves[i]
            count += 1
    return new_rows[:count], new_leaves[:count]


@kernel
def edges(
    parent: Array, action: Array, rows: Array, nodes: Array, first_action: int
) -> tuple[Array, Array]:
    """Return the parents `[L]` int32 of L nodes, and the actions `[L]` int64 that lead to them.

    Args:
        parent: `[B, N]` int32 of the trees.
        action: `[B, N]` int32 of the trees.
        rows: `[L]` int, the tree of each node.
        nodes: `[L]` int, its index there.
        first_action: the action with index 0.
    """
    parents = np.empty(len(rows), np.int32)
    actions = np.empty(len(rows), np.int64)
    for i in range(len(rows)):
        parents[i] = parent[rows[i], nodes[i]]
        actions[i] = first_action + action[rows[i], nodes[i]]
    return parents, actions


@kernel
def tally(counter: Array, rows: Array, cost: int) -> None:
    """Add `cost` to `counter` `[B]` for every one of `rows` `[L]`."""
    for i in range(len(rows)):
        counter[rows[i]] += cost


@kernel
def tally_each(counter: Array, rows: Array, costs: Array) -> None:
    """Add `costs[i]` to `counter` `[B]` for row i of `rows` `[L]`."""
    for i in range(len(rows)):
        counter[rows[i]] += costs[i]


@kernel
def tally_steps(counters: Array, rows: Array) -> None:
    """Add a model step, an expansion and a restore to `counters` `[4, B]` for each of `rows`."""
    for b in rows:
        counters[0, b] += 1
        counters[1, b] += 1
        counters[3, b] += 1


@kernel
def tally_rating(
    counters: Array, rows: Array, model_steps: Array, evaluator_rows: Array, restores: Array
) -> None:
    """Add what rating L leaves has cost to `counters` `[4, B]`, rows as fields of `Budget`."""
    for i in range(len(rows)):
        counters[0, rows[i]] += model_steps[i]
        counters[2, rows[i]] += evaluator_rows[i]
        counters[3, rows[i]] += restores[i]

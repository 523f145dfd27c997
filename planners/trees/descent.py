"""Simulations of Shoot Tree Search on their way down, which expand several nodes each.

The kernels become part of what calls them: handing over the arrays of a tree and of a
descent takes as long as a short simulation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.core.jit import kernel_inline
from plangym_ext.planners.trees.gumbel import Halving
from plangym_ext.planners.trees.multi_step import add_children, backup_return
from plangym_ext.planners.trees.selection import Selection, choose
from plangym_ext.planners.trees.tree import NO_ACTION, OPEN, Array, Tree


class Descent(NamedTuple):
    """L simulations, and what each has to hand up.

    That is a return, and the node above which it is credited. An ended leaf hands up
    its own value once more.
    """

    rows: npt.NDArray[np.int32]  # [L] tree of each, ascending
    at: npt.NDArray[np.int32]  # [L] node that it has come to
    above: npt.NDArray[np.int32]  # [L] node above which its return is credited
    returns: npt.NDArray[np.float64]  # [L] from that node on
    owed: npt.NDArray[np.bool_]  # [L] whether it has not been handed up yet
    done: npt.NDArray[np.bool_]  # [L] False where not even one expansion fitted
    going: npt.NDArray[np.int32]  # [L] the first of them are indices of those that go on
    counts: npt.NDArray[np.int32]  # [L] children of the nodes they expanded, -1: no room


@kernel_inline
def begin_descent(tree: Tree, rows: Array, leaves: Array) -> tuple[Descent, int]:
    """Return L simulations that have come to `leaves` `[L]`, and how many of them go on."""
    size, count = leaves.size, 0
    going, returns = np.empty(size, np.int32), np.empty(size)
    for i in range(size):
        returns[i] = tree.value[rows[i], leaves[i]]
        if tree.kind[rows[i], leaves[i]] == OPEN:
            going[count] = i
            count += 1
    owed, done = np.ones(size, np.bool_), np.ones(size, np.bool_)
    at, above, counts = leaves.copy(), leaves.copy(), np.empty(size, np.int32)
    return Descent(rows, at, above, returns, owed, done, going, counts), count


@kernel_inline
def expand_nodes(tree: Tree, descent: Descent, count: int) -> tuple[Array, Array]:
    """Add all children of the nodes that `count` simulations go on from, as pending.

    Returns:
        Trees `[M]` and nodes `[M]` of the children; they are to be observed.
    """
    rows, nodes = np.empty(count, np.int32), np.empty(count, np.int32)
    for k in range(count):
        rows[k], nodes[k] = descent.rows[descent.going[k]], descent.at[descent.going[k]]
    most = count * tree.order.shape[1]
    new_rows, new_nodes = np.empty(most, np.int32), np.empty(most, np.int32)
    total = add_children(tree, rows, nodes, new_rows, new_nodes, descent.counts)
    return new_rows[:total], new_nodes[:total]


@kernel_inline
def go_on(
    tree: Tree,
    selection: Selection,
    halving: Halving | None,
    descent: Descent,
    count: int,
    full: Array,
    first: bool,
    early: bool,
) -> int:
    """Step down into the child that the rule takes of every node that was expanded.

    Args:
        tree: the trees; all children have been observed.
        selection: the rule.
        halving: the schedule at the roots for GUMBEL; None for the other rules.
        descent: the simulations.
        count: how many of them went on.
        full: `[B]` bool, written: True where there was no room for children.
        first: this was the first expansion.
        early: hand up what those that go on have come to.

    Returns:
        How many go on.
    """
    going, on = descent.going, 0
    for k in range(count):
        i = going[k]
        b, node = descent.rows[i], descent.at[i]
        if descent.counts[k] < 0:
            full[b] = True
            descent.done[i] = not first
            continue
        action = choose(tree, b, node, selection, halving)
        # A node that allows nothing is a leaf with the value it was rated.
        if action == NO_ACTION:
            continue
        child = tree.children[b, node, action]
        descent.above[i], descent.at[i], descent.owed[i] = node, child, True
        descent.returns[i] = tree.q[b, child]
        if tree.kind[b, child] == OPEN:
            going[on] = i
            on += 1
    if early:
        for k in range(on):
            # As the indices of `end_descent`: other types would compile it once more.
            hand_up(tree, descent, int(going[k]))
    return on


@kernel_inline
def hand_up(tree: Tree, descent: Descent, i: int) -> None:
    """Credit what simulation i has come to, in place."""
    backup_return(tree, descent.rows[i], descent.above[i], descent.returns[i])
    descent.owed[i] = False


@kernel_inline
def end_descent(tree: Tree, descent: Descent) -> int:
    """Hand up whatever is still owed; return how many simulations found room."""
    count = 0
    for i in range(len(descent.rows)):
        if descent.done[i]:
            count += 1
            if descent.owed[i]:
                hand_up(tree, descent, i)
    return count

"""Kernels of Shoot Tree Search: multi-node expansion and backup.

Source: Czechowski et al. 2021, "Structure and randomness in planning and reinforcement
learning", section 3; departures are listed in `planners.STS`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.core.compiling.jit import allocating_part, kernel, kernel_inline, kernel_part
from plangym_ext.planners.trees.gumbel import Halving
from plangym_ext.planners.trees.selection import Selection, choose
from plangym_ext.planners.trees.tree import (
    NO_ACTION,
    NO_PARENT,
    OPEN,
    ROOT,
    UNVISITED,
    Array,
    Tree,
    allocate,
)


@kernel_part
def is_expanded(tree: Tree, b: int, node: int) -> bool:
    """Return whether a node has any child; such a node has all that it will be given."""
    found = False
    for a in range(tree.children.shape[2]):
        found |= tree.children[b, node, a] != UNVISITED
    return found


@kernel_inline
def is_lacking(tree: Tree, b: int, node: int, action: int) -> bool:
    """Return whether an action of a node is legal and has no child."""
    return tree.legal[b, node, action] and tree.children[b, node, action] == UNVISITED


@kernel_inline
def choose_child(
    tree: Tree,
    b: int,
    node: int,
    selection: Selection,
    halving: Halving | None,
    num_children: int | None,
) -> int:
    """Return the action to follow to one of a node's children, NO_ACTION if it has none."""
    # Compiled for None, only this is there.
    if num_children is None:
        return choose(tree, b, node, selection.rule, selection, halving)
    return choose_drawn(tree, b, node, selection, halving)


@allocating_part
def choose_drawn(
    tree: Tree, b: int, node: int, selection: Selection, halving: Halving | None
) -> int:
    """Return what `choose_child` does where children are drawn.

    The other actions are hidden from the rule, and their share of the prior is the children's.
    """
    legal = known = tree.legal[b, node]
    hidden, mass = 0, 0.0
    for a in range(legal.shape[0]):
        if legal[a]:
            if tree.children[b, node, a] == UNVISITED:
                hidden += 1
            else:
                mass += tree.prior[b, node, a]
    weight = selection.c
    if hidden > 0:
        known = legal.copy()
        for a in range(legal.shape[0]):
            legal[a] = known[a] and tree.children[b, node, a] != UNVISITED
        weight = weight / mass if mass > 0.0 else weight
    rule, _, scale, fpu_reduction, c_visit, c_scale = selection
    rescaled = Selection(rule, weight, scale, fpu_reduction, c_visit, c_scale)
    action = choose(tree, b, node, rule, rescaled, halving)
    if hidden > 0:
        legal[:] = known
    return action


@kernel_part
def select_nodes(
    tree: Tree,
    b: int,
    limit: int,
    selection: Selection,
    halving: Halving | None,
    num_children: int | None,
    leaves: Array,
) -> int:
    """Choose up to `limit` nodes of tree b, as `select_frontier` does in every tree.

    Returns:
        How many were written to `leaves`, in the order of choice.
    """
    count = 0
    while count < limit:
        node = ROOT
        while tree.kind[b, node] == OPEN and is_expanded(tree, b, node):
            action = choose_child(tree, b, node, selection, halving, num_children)
            if action == NO_ACTION:
                break
            node = tree.children[b, node, action]
        # Another simulation of this wave expands it: a second one would have to wait for that.
        if tree.kind[b, node] == OPEN and tree.unobserved[b, node] > 0:
            break
        leaves[count] = node
        count += 1
        while node != NO_PARENT:
            tree.unobserved[b, node] += 1
            node = tree.parent[b, node]
    return count


@kernel
def select_frontier(
    tree: Tree,
    limits: Array,
    selection: Selection,
    halving: Halving | None,
    num_children: int | None,
    rows: Array,
    leaves: Array,
) -> int:
    """Choose up to `limits[b]` nodes without children in every tree, or ended ones.

    A tree's share of the wave ends at a node that is in flight already. Paths are
    counted in `unobserved`, as in `select_wave`.

    Returns:
        How many were written to `rows` and `leaves`, grouped by tree.
    """
    count = 0
    for b in range(len(limits)):
        more = select_nodes(tree, b, limits[b], selection, halving, num_children, leaves[count:])
        for i in range(count, count + more):
            rows[i] = b
        count += more
    return count


class Descent(NamedTuple):
    """Arrays for L simulations, with the return that each has yet to back up.

    An ended leaf credits its own value once more.
    """

    rows: npt.NDArray[np.int32]  # [L] tree of each, ascending
    leaves: npt.NDArray[np.int32]  # [L] node that it was selected for
    at: npt.NDArray[np.int32]  # [L] node that it has come to
    above: npt.NDArray[np.int32]  # [L] node above which its return is credited
    going: npt.NDArray[np.int32]  # [L] the first of them are indices of those that go on
    counts: npt.NDArray[np.int32]  # [L] children of the nodes they expanded, -1: no room
    returns: npt.NDArray[np.float64]  # [L] from `above` on
    owed: npt.NDArray[np.bool_]  # [L] whether it has not been credited yet
    done: npt.NDArray[np.bool_]  # [L] False where not even one expansion fitted
    new_rows: npt.NDArray[np.int32]  # [L * A] tree of each child that was added last
    new_nodes: npt.NDArray[np.int32]  # [L * A] its index there


def new_descent(room: int, num_actions: int) -> Descent:
    """Return room for so many simulations."""
    indices, flags = np.empty((6, room), np.int32), np.empty((2, room), np.bool_)
    new = np.empty((2, room * num_actions), np.int32)
    return Descent._make([*indices, np.empty(room), *flags, *new])


@kernel_inline
def add_children(
    tree: Tree, b: int, node: int, drawn: Array | None, k: int, descent: Descent, count: int
) -> int:
    """Allocate the children that an open node of tree b lacks, as pending, or none of them.

    Args:
        tree: the trees.
        b: which tree.
        node: its index there.
        drawn: `[K, A]` bool, row `k` of which says what children are added; None: all legal.
        k: see there.
        descent: written: `new_rows` and `new_nodes`, from `count` on.
        count: of new nodes before.

    Returns:
        How many children are new, -1 if there is no room for all of them.
    """
    wanted = 0
    for a in range(tree.legal.shape[2]):
        if is_lacking(tree, b, node, a) and (drawn is None or drawn[k, a]):
            wanted += 1
    # All children or none: a node that has any counts as expanded.
    if tree.size[b] + wanted > tree.parent.shape[1]:
        return -1
    for a in range(tree.legal.shape[2]):
        if is_lacking(tree, b, node, a) and (drawn is None or drawn[k, a]):
            descent.new_rows[count], descent.new_nodes[count] = b, allocate(tree, b, node, a)
            count += 1
    return wanted


@kernel
def complete_roots(tree: Tree, descent: Descent) -> int:
    """Add the children that roots with some lack; return how many there are in all."""
    count = 0
    for b in range(len(tree.size)):
        # As a variable: code for a constant would be made besides that for any node.
        root = int(np.int64(ROOT))
        if is_expanded(tree, b, root):
            count += max(0, add_children(tree, b, root, None, 0, descent, count))
    return count


@kernel
def draw_children(
    tree: Tree, rows: Array, nodes: Array, numbers: Array, most: int, drawn: Array
) -> None:
    """Draw which children L nodes are given: some of the legal ones, by the prior.

    Args:
        tree: the trees.
        rows: `[L]` tree of each node.
        nodes: `[L]` its index; a root is given all.
        numbers: `[L, A]` uniform in [0, 1).
        most: how many there may be below the root.
        drawn: `[L, A]` bool, written.

    Source: drawing without replacement as Efraimidis & Spirakis 2006, "Weighted random sampling
    with a reservoir".
    """
    drawn[:] = False
    for i in range(len(rows)):
        b, node = rows[i], nodes[i]
        for _ in range(drawn.shape[1] if node == ROOT else min(most, drawn.shape[1])):
            best, best_key = NO_ACTION, 0.0
            for a in range(drawn.shape[1]):
                if drawn[i, a] or not tree.legal[b, node, a]:
                    continue
                prior = np.float64(tree.prior[b, node, a])
                key = np.log1p(-numbers[i, a]) / prior if prior > 0.0 else -np.inf
                if best == NO_ACTION or key > best_key:
                    best, best_key = a, key
            if best == NO_ACTION:
                break
            drawn[i, best] = True


@kernel_part
def credit_creation(tree: Tree, rows: Array, nodes: Array, count: int) -> None:
    """Count the rating of the first of new nodes as their first visit, which defines their q."""
    for i in range(count):
        b, node = rows[i], nodes[i]
        # Siblings are compared before any return has come through them.
        q = tree.reward[b, node] + tree.discount[b, node] * tree.value[b, node]
        tree.visits[b, node] = 1
        tree.q[b, node] = np.float32(q)
        tree.q_low[b] = min(tree.q_low[b], tree.q[b, node])
        tree.q_high[b] = max(tree.q_high[b], tree.q[b, node])


@kernel_part
def backup_return(tree: Tree, b: int, node: int, ret: float) -> None:
    """Credit a return from a node of tree b on to every edge above it, in place.

    The node's own edge sees its reward and its discounted return, and so on up. At an edge with a
    termination, the discount of 0 hides the return from below.
    """
    while node != NO_PARENT:
        if node != ROOT:
            ret = tree.reward[b, node] + tree.discount[b, node] * ret
        tree.visits[b, node] += 1
        # Computed in float64 and rounded once, as in `backup_leaf`.
        mean = np.float64(tree.q[b, node])
        tree.q[b, node] = np.float32(mean + (ret - mean) / tree.visits[b, node])
        if node != ROOT:
            tree.q_low[b] = min(tree.q_low[b], tree.q[b, node])
            tree.q_high[b] = max(tree.q_high[b], tree.q[b, node])
        node = tree.parent[b, node]


@kernel_part
def observed(tree: Tree, rows: Array, leaves: Array, count: int) -> None:
    """Take the first of simulations, as `select_frontier` counted them, out of flight."""
    for i in range(count):
        b, node = rows[i], leaves[i]
        while node != NO_PARENT:
            tree.unobserved[b, node] -= 1
            node = tree.parent[b, node]


@kernel_inline
def begin_descent(tree: Tree, descent: Descent, size: int) -> int:
    """Begin `size` simulations at their leaves; return how many of them go on."""
    count = 0
    for i in range(size):
        b, leaf = descent.rows[i], descent.leaves[i]
        descent.at[i] = descent.above[i] = leaf
        descent.owed[i] = descent.done[i] = True
        # The return that an ended leaf credits; other leaves are given another one on their way.
        descent.returns[i] = tree.value[b, leaf]
        if tree.kind[b, leaf] == OPEN:
            descent.going[count] = i
            count += 1
    return count


@kernel_inline
def expand_nodes(tree: Tree, descent: Descent, count: int, drawn: Array | None) -> int:
    """Add the children of the nodes that `count` simulations go on from, as pending.

    Args:
        tree: the trees.
        descent: the simulations; written: `counts`, `new_rows` and `new_nodes`.
        count: how many of them go on.
        drawn: `[count, A]` bool, the actions whose children are added; None: all.

    Returns:
        How many children there are; they are to be observed.
    """
    total = 0
    for k in range(count):
        i = descent.going[k]
        added = add_children(tree, descent.rows[i], descent.at[i], drawn, k, descent, total)
        descent.counts[k] = added
        total += max(0, added)
    return total


@kernel_inline
def go_on(
    tree: Tree,
    selection: Selection,
    halving: Halving | None,
    num_children: int | None,
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
        num_children: of a node, if they are drawn.
        descent: the simulations.
        count: how many of them went on.
        full: `[B]` bool, written: True where there was no room for children.
        first: this was the first expansion.
        early: credit what those that go on have come to.

    Returns:
        How many go on.
    """
    going, on = descent.going, 0
    for k in range(count):
        i = going[k]
        b, node = descent.rows[i], descent.at[i]
        # A simulation that could expand nothing at all does not count as one.
        if descent.counts[k] < 0:
            full[b] = True
            descent.done[i] = not first
            continue
        action = choose_child(tree, b, node, selection, halving, num_children)
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
            credit(tree, descent, int(going[k]))
    return on


@kernel_inline
def credit(tree: Tree, descent: Descent, i: int) -> None:
    """Credit what simulation i has come to, in place."""
    backup_return(tree, descent.rows[i], descent.above[i], descent.returns[i])
    descent.owed[i] = False


@kernel_inline
def end_descent(tree: Tree, descent: Descent, size: int) -> int:
    """Credit what `size` simulations still owe; return how many of them found room."""
    count = 0
    for i in range(size):
        if descent.done[i]:
            count += 1
            if descent.owed[i]:
                credit(tree, descent, i)
    return count

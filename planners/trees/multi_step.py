"""Kernels of searches that expand nodes fully and more than one per simulation."""

from __future__ import annotations

import numpy as np

from plangym_ext.core.jit import kernel
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


@kernel
def is_expanded(tree: Tree, b: int, node: int) -> bool:
    """Whether a node has any child; such a node has all of its legal ones."""
    found = False
    for a in range(tree.children.shape[2]):
        found |= tree.children[b, node, a] != UNVISITED
    return found


@kernel
def select_nodes(
    tree: Tree, b: int, limit: int, selection: Selection, halving: Halving | None, leaves: Array
) -> int:
    """Choose up to `limit` nodes of tree b, as `select_frontier` does in every tree.

    Returns:
        How many were written to `leaves`, in the order of choice.
    """
    count = 0
    while count < limit:
        node = ROOT
        while tree.kind[b, node] == OPEN and is_expanded(tree, b, node):
            action = choose(tree, b, node, selection, halving)
            if action == NO_ACTION:
                break
            node = tree.children[b, node, action]
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
        more = select_nodes(tree, b, limits[b], selection, halving, leaves[count:])
        rows[count : count + more] = b
        count += more
    return count


@kernel
def add_children(
    tree: Tree, rows: Array, nodes: Array, new_rows: Array, new_nodes: Array, counts: Array
) -> int:
    """Allocate every legal child of L nodes, as pending; none where there is no room.

    Args:
        tree: the trees.
        rows: `[L]` tree of each node, ascending.
        nodes: `[L]` open nodes without children.
        new_rows: `[L * A]` written: the tree of each child.
        new_nodes: `[L * A]` written: its index.
        counts: `[L]` written: children of each node, -1 if they did not fit.

    Returns:
        How many children there are in all.
    """
    total = 0
    for i in range(len(nodes)):
        b, node = rows[i], nodes[i]
        wanted = 0
        for a in range(tree.legal.shape[2]):
            if tree.legal[b, node, a]:
                wanted += 1
        if tree.size[b] + wanted > tree.parent.shape[1]:
            counts[i] = -1
            continue
        counts[i] = wanted
        for a in range(tree.legal.shape[2]):
            if tree.legal[b, node, a]:
                new_rows[total], new_nodes[total] = b, allocate(tree, b, node, a)
                total += 1
    return total


@kernel
def credit_creation(tree: Tree, rows: Array, nodes: Array) -> None:
    """Count the rating of L new nodes as their first visit, so that their q is defined."""
    for i in range(len(nodes)):
        b, node = rows[i], nodes[i]
        q = tree.reward[b, node] + tree.discount[b, node] * tree.value[b, node]
        tree.visits[b, node] = 1
        tree.q[b, node] = np.float32(q)
        tree.q_low[b] = min(tree.q_low[b], tree.q[b, node])
        tree.q_high[b] = max(tree.q_high[b], tree.q[b, node])


@kernel
def backup_return(tree: Tree, b: int, node: int, ret: float) -> None:
    """Credit a return from a node of tree b on to every edge above it, in place.

    The node's own edge sees its reward and its discounted return, and so on up. Where
    an edge terminated, its discount of 0 hides what comes from below.
    """
    while node != NO_PARENT:
        if node != ROOT:
            ret = tree.reward[b, node] + tree.discount[b, node] * ret
        tree.visits[b, node] += 1
        mean = np.float64(tree.q[b, node])
        tree.q[b, node] = np.float32(mean + (ret - mean) / tree.visits[b, node])
        if node != ROOT:
            tree.q_low[b] = min(tree.q_low[b], tree.q[b, node])
            tree.q_high[b] = max(tree.q_high[b], tree.q[b, node])
        node = tree.parent[b, node]


@kernel
def observed(tree: Tree, rows: Array, leaves: Array) -> None:
    """Take L simulations, as `select_frontier` counted them, out of flight."""
    for i in range(len(leaves)):
        b, node = rows[i], leaves[i]
        while node != NO_PARENT:
            tree.unobserved[b, node] -= 1
            node = tree.parent[b, node]

"""Leaf selection: descent through trees, in waves of simulations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plangym_ext.core.compiling.jit import kernel_inline, kernel_part
from plangym_ext.planners.trees.gumbel import Halving, halving_action, improved_action
from plangym_ext.planners.trees.rules import puct_action, uct_action
from plangym_ext.planners.trees.tree import NO_ACTION, OPEN, ROOT, UNVISITED, Array, Tree, allocate

# How an action is chosen in a node. What is compiled for None has no other rule in it, and PUCT
# is what nearly all searches are compiled for.
PUCT, UCT, GUMBEL = None, 1, 2
# Why a descent found no leaf.
BLOCKED, FULL = -1, -2


class Selection(NamedTuple):
    """Parameters of the selection rules; each rule reads its own."""

    rule: int | None  # PUCT, UCT or GUMBEL
    c: float  # weight of the bonus of PUCT or UCT
    scale: int  # see `value_scale`
    fpu_reduction: float  # see `puct_action`
    c_visit: float  # see `improved_logits`
    c_scale: float  # see `improved_logits`


@kernel_inline
def choose(
    tree: Tree, b: int, node: int, rule: int | None, selection: Selection, halving: Halving | None
) -> int:
    """Return the action to follow from an open node, NO_ACTION if none can be.

    Args:
        tree: the trees.
        b: which tree.
        node: its index there.
        rule: of the selection.
        selection: the numbers of the rule.
        halving: the schedule at the roots for GUMBEL; None for the other rules.
    """
    # Compiled for arguments that are None, as a whole, only one of these branches is there.
    if halving is not None:
        c_visit, c_scale = selection.c_visit, selection.c_scale
        if node == ROOT:
            return halving_action(tree, b, halving, selection.scale, c_visit, c_scale)
        return improved_action(tree, b, node, halving, selection.scale, c_visit, c_scale)
    c, scale = selection.c, selection.scale
    if rule is None:
        return puct_action(tree, b, node, c, scale, selection.fpu_reduction)
    return uct_action(tree, b, node, c, scale)


@kernel_inline
def descend(tree: Tree, b: int, selection: Selection, halving: Halving | None) -> int:
    """Walk tree b from its root and return the leaf, as a pending new node.

    An ended node, or one without legal actions, is returned as it is: its
    value is known. BLOCKED means that the walk came to a node all of whose
    actions are in flight, FULL that a new node was wanted and there is no room.
    """
    # As a literal, all that is called from here would be compiled a second time for it.
    node = int(np.int64(ROOT))
    while tree.kind[b, node] == OPEN:
        action = choose(tree, b, node, selection.rule, selection, halving)
        if action == NO_ACTION:
            for a in range(tree.order.shape[1]):
                if tree.legal[b, node, a]:
                    return BLOCKED
            return node
        child = tree.children[b, node, action]
        if child == UNVISITED:
            if tree.size[b] == tree.parent.shape[1]:
                return FULL
            return allocate(tree, b, node, action)
        node = child
    return node


@kernel_inline
def select_leaves(
    tree: Tree, b: int, limit: int, selection: Selection, halving: Halving | None, leaves: Array
) -> int:
    """Choose up to `limit` leaves of tree b, as `select_wave` does in every tree.

    Returns:
        How many were written to `leaves`, in the order of choice.
    """
    if halving is not None:
        # The choice of who stays needs all returns of the phase before it.
        now = tree.visits[b, ROOT]
        if limit > 0:
            limit = min(limit, halving.phase_end[b, now] - now - tree.unobserved[b, ROOT])
    count = 0
    while count < limit:
        leaf = descend(tree, b, selection, halving)
        if leaf < 0:
            break
        leaves[count] = leaf
        count += 1
        node = leaf
        while node != ROOT:
            tree.unobserved[b, node] += 1
            node = tree.parent[b, node]
        tree.unobserved[b, ROOT] += 1
    return count


@kernel_part
def select_wave(
    tree: Tree,
    limits: Array,
    selection: Selection,
    halving: Halving | None,
    rows: Array,
    leaves: Array,
) -> int:
    """Choose up to `limits[b]` leaves in every tree and return how many in all.

    Every choice is counted in `unobserved` along its path, which lowers the
    bonus of that path for the next one, so that a wave spreads over the tree
    as if its returns had come in and agreed with the means so far. A wave is
    cut short, rather than made to repeat itself, when a walk is blocked. An ended
    node can be chosen more than once, as by searches without waves: its value is known,
    and it costs no step.

    Args:
        tree: the trees, nothing pending.
        limits: `[B]` int, how many leaves each tree may have.
        selection: the rule.
        halving: the schedule at the roots for GUMBEL; None for the other rules.
        rows: `[L]` int32, L >= limits.sum(); written: the tree of each leaf.
        leaves: `[L]` int32, written: its node, in the order of choice.

    Source: Liu et al. 2020, "Watch the Unobserved: a simple approach to
    parallelizing Monte Carlo tree search".
    """
    count = 0
    for b in range(len(limits)):
        more = select_leaves(tree, b, limits[b], selection, halving, leaves[count:])
        rows[count : count + more] = b
        count += more
    return count

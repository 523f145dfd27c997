"""Repair of kept trees: branches that a real step has contradicted are cut off."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from plangym_ext.planners.lockstep.node_states import NodeStates
from plangym_ext.planners.simulator import States
from plangym_ext.planners.trees.tree import ROOT, TERMINATED, UNVISITED, Tree
from plangym_ext.states.envelope import state_content

#: Fields of a tree with a row for each node.
_OF_NODES = ("action", "kind", "reward", "discount", "value", "visits", "unobserved", "q")


def cut_wrong(
    tree: Tree,
    states: NodeStates,
    b: int,
    state: States,
    action: int,
    following: States,
    reward: float,
) -> int:
    """Drop the branch below an action where tree b's prediction differs from the real step.

    The nodes above have the counts and means of the simulations that remain. For trees to which
    a simulation adds one node, whose first return is its rating.

    Args:
        tree: the trees; nothing is in flight.
        states: of their nodes.
        b: which tree.
        state: `[S]` where the action was played.
        action: its index.
        following: `[S]` where it has led.
        reward: what it paid; NaN: not known.

    Returns:
        How many nodes were dropped.
    """
    size = int(tree.size[b])
    below = tree.children[b, :size, action]
    played = np.flatnonzero(below != UNVISITED)
    trees, wrong = np.full(len(played), b), []
    here, there = states.get(trees, played), states.get(trees, below[played])
    came = state_content(state), state_content(following)
    for i, child in enumerate(below[played].tolist()):
        if state_content(here[i]) != came[0]:
            continue
        paid = np.isnan(reward) or tree.reward[b, child] == reward
        if tree.kind[b, child] == TERMINATED or not paid or state_content(there[i]) != came[1]:
            wrong.append(child)
    if not wrong:
        return 0
    gone = np.zeros(size, np.bool_)
    gone[wrong] = True
    for node in range(1, size):  # parents come before their children
        gone[node] |= gone[tree.parent[b, node]]
    _count_again(tree, b, gone)
    kept = np.flatnonzero(~gone)
    new = np.full(size + 1, UNVISITED, np.int32)  # the last is that of no node
    new[kept] = np.arange(len(kept))
    parents, children = tree.parent[b, kept], tree.children[b, kept]
    for name in (*_OF_NODES, "prior", "legal"):
        field = getattr(tree, name)
        field[b, : len(kept)] = field[b, kept]
    tree.parent[b, : len(kept)], tree.children[b, : len(kept)] = new[parents], new[children]
    tree.size[b] = len(kept)
    states.keep(b, kept)
    return int(gone.sum())


def _count_again(tree: Tree, b: int, gone: npt.NDArray[np.bool_]) -> None:
    """Take the simulations through nodes `gone` `[n]` out of the counts and means above them."""
    before, touched = tree.visits[b, : len(gone)].copy(), gone.copy()
    for node in range(len(gone) - 1, -1, -1):
        children = tree.children[b, node]
        children = children[children != UNVISITED]
        if gone[node] or not touched[children].any():
            continue
        touched[node] = True
        own = int(before[node] - before[children].sum())
        kept = children[~gone[children]]
        tree.visits[b, node] = count = own + int(tree.visits[b, kept].sum())
        total = own * tree.value[b, node]
        total += (tree.visits[b, kept] * tree.q[b, kept].astype(np.float64)).sum()
        mean = total / count if count else 0.0
        if node != ROOT:
            mean = tree.reward[b, node] + tree.discount[b, node] * mean
        tree.q[b, node] = np.float32(mean)

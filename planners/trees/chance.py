"""Chance nodes of search trees: arrays and kernels.

The child of an action is a node of kind CHANCE, whose children are the outcomes that were drawn.
It has reward 0 and discount 1, so that its backed-up value is the mean over its outcomes, each
tried as often as it was drawn. Trees over sequences of actions have no such nodes: `backup_rewards`
credits what chance has paid this time.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.core.compiling.jit import kernel, kernel_inline
from plangym_ext.planners.trees.selection import BLOCKED, FULL, Selection, choose
from plangym_ext.planners.trees.tree import (
    CHANCE,
    NO_ACTION,
    NO_PARENT,
    OPEN,
    PENDING,
    ROOT,
    UNVISITED,
    Array,
    Tree,
    allocate,
)


class Chances(NamedTuple):
    """Chance nodes of B trees: their outcomes, draws and limits."""

    first: npt.NDArray[np.int32]  # [B, N] first outcome of a node of chance, UNVISITED if none
    following: npt.NDArray[np.int32]  # [B, N] next outcome of the same node, UNVISITED at the last
    draws: npt.NDArray[np.int32]  # [B, N] of a node of chance; of an outcome, how many gave it
    waiting: npt.NDArray[np.int32]  # [B, N] draws of a node of chance that are in flight
    reserved: npt.NDArray[np.int32]  # [B] nodes that may come of the draws in flight
    width: float  # after n visits, width * n ** growth outcomes are drawn
    growth: float


class Draws(NamedTuple):
    """Results of L draws: states, rewards and endings."""

    states: npt.NDArray[np.uint8]  # [L, S]
    telling: npt.NDArray[np.bool_]  # [S] bytes that tell one state from another
    results: npt.NDArray[np.float64]  # [L, 3] reward, terminated, truncated


def new_chances(batch: int, capacity: int, width: float, growth: float) -> Chances:
    """Return room for B trees of at most N nodes."""
    first, following, draws, waiting = np.zeros((4, batch, capacity), np.int32)
    reserved = np.zeros(batch, np.int32)
    return Chances(first, following, draws, waiting, reserved, width, growth)


@kernel_inline
def due_outcome(tree: Tree, chances: Chances, b: int, node: int) -> int:
    """Return the outcome whose visits are furthest below its share of the draws.

    That is the largest draws / (visits + 1); UNVISITED if no outcome is known yet.
    """
    best, most = UNVISITED, -1.0
    child = int(np.int64(chances.first[b, node]))
    while child != UNVISITED:
        count = tree.visits[b, child] + tree.unobserved[b, child]
        share = chances.draws[b, child] / (1.0 + count)
        if share > most:
            best, most = child, share
        child = int(np.int64(chances.following[b, child]))
    return best


@kernel_inline
def descend_by_chance(tree: Tree, chances: Chances, b: int, selection: Selection) -> int:
    """Walk tree b from its root; return a node of chance that is to be drawn from, or a leaf.

    A leaf is an ended node, or one without legal actions. BLOCKED and FULL are as of `descend`.
    """
    node, capacity = int(np.int64(ROOT)), tree.parent.shape[1]
    while tree.kind[b, node] == OPEN:
        action = choose(tree, b, node, selection.rule, selection, None)
        if action == NO_ACTION:
            for a in range(tree.order.shape[1]):
                if tree.legal[b, node, a]:
                    return BLOCKED
            return node
        chance = int(np.int64(tree.children[b, node, action]))
        if chance == UNVISITED:
            # Two: this node and its outcome. Draws in flight may turn into a node each.
            if tree.size[b] + chances.reserved[b] + 2 > capacity:
                return FULL
            chance = int(np.int64(allocate(tree, b, node, action)))
            tree.kind[b, chance] = CHANCE
            tree.reward[b, chance], tree.discount[b, chance] = 0.0, 1.0
            tree.value[b, chance] = 0.0
            chances.first[b, chance] = UNVISITED
            chances.draws[b, chance] = chances.waiting[b, chance] = 0
        # This simulation is counted, so that the first one always draws: the width is above 0.
        tries = tree.visits[b, chance] + tree.unobserved[b, chance] + 1
        drawn = chances.draws[b, chance] + chances.waiting[b, chance]
        if drawn < math.ceil(chances.width * tries**chances.growth):
            if tree.size[b] + chances.reserved[b] + 1 > capacity:
                return FULL
            return chance
        node = due_outcome(tree, chances, b, chance)
        # All its draws are in flight: which outcome to go on in is not known yet.
        if node == UNVISITED:
            return BLOCKED
    return node


@kernel
def select_by_chance(
    tree: Tree, chances: Chances, limits: Array, selection: Selection, rows: Array, leaves: Array
) -> int:
    """Choose up to `limits[b]` leaves or nodes to draw from in every tree, as `select_wave`.

    Args:
        tree: the trees, nothing pending.
        chances: of their nodes; draws are counted in `waiting` and `reserved`.
        limits: `[B]` int, how many each tree may have.
        selection: PUCT or UCT.
        rows: `[L]` int32, L >= limits.sum(); written: the tree of each.
        leaves: `[L]` int32, written: its node.

    Returns:
        How many there are in all.
    """
    count = 0
    for b in range(len(limits)):
        chosen = 0
        while chosen < limits[b]:
            leaf = descend_by_chance(tree, chances, b, selection)
            if leaf < 0:
                break
            rows[count], leaves[count] = b, leaf
            count, chosen = count + 1, chosen + 1
            if tree.kind[b, leaf] == CHANCE:
                chances.waiting[b, leaf] += 1
                chances.reserved[b] += 1
            # Counted from the leaf up, as `backup` takes it off: outcomes are added below later.
            fly(tree, b, leaf, 1)
    return count


@kernel_inline
def fly(tree: Tree, b: int, leaf: int, number: int) -> None:
    """Add a number of simulations in flight on the way from a node up."""
    node = leaf
    while node != NO_PARENT:
        tree.unobserved[b, node] += number
        node = tree.parent[b, node]


@kernel
def place_draws(
    tree: Tree,
    chances: Chances,
    rows: Array,
    leaves: Array,
    states: Array,
    draws: Draws,
    nodes: Array,
) -> None:
    """Find the outcomes that were drawn, or make pending nodes of those that are new, in place.

    A simulation whose draw gave a known outcome is taken out of flight: another one goes on there.

    Args:
        tree: the trees.
        chances: of their nodes; nothing is waiting afterwards.
        rows: `[L]` tree of each draw.
        leaves: `[L]` the node of chance that was drawn from.
        states: `[B, N, S]` of the nodes, all with the same random generator; new ones are written.
        draws: what came, with that generator.
        nodes: `[L]` int32, written: the new node, UNVISITED where the outcome was known.
    """
    for i in range(len(rows)):
        b, chance = rows[i], int(np.int64(leaves[i]))
        chances.waiting[b, chance] -= 1
        chances.reserved[b] -= 1
        chances.draws[b, chance] += 1
        last, child = int(np.int64(UNVISITED)), int(np.int64(chances.first[b, chance]))
        while child != UNVISITED and not is_outcome(tree, b, child, states, draws, i):
            last, child = child, int(np.int64(chances.following[b, child]))
        nodes[i] = UNVISITED
        if child != UNVISITED:
            chances.draws[b, child] += 1
            fly(tree, b, chance, -1)
            continue
        action = int(np.int64(tree.action[b, chance]))
        child = int(np.int64(allocate(tree, b, chance, action)))
        # Outcomes hang in a list: their number is not that of the actions.
        tree.children[b, chance, action] = UNVISITED
        tree.unobserved[b, child] = 1
        # What tells it from the next draws of this wave; the rest is written by `expand`.
        tree.reward[b, child] = draws.results[i, 0]
        tree.value[b, child] = draws.results[i, 1] + 2.0 * draws.results[i, 2]
        for s in range(draws.states.shape[1]):
            states[b, child, s] = draws.states[i, s]
        chances.draws[b, child], chances.following[b, child] = 1, UNVISITED
        if last == UNVISITED:
            chances.first[b, chance] = child
        else:
            chances.following[b, last] = child
        nodes[i] = child


@kernel_inline
def is_outcome(tree: Tree, b: int, node: int, states: Array, draws: Draws, i: int) -> bool:
    """Return whether draw i gave what a node stands for: the state, the reward, the ending."""
    state, result = draws.states[i], draws.results[i]
    # 0: it goes on; 1: terminated; 2: truncated; 3: both.
    ending = result[1] + 2.0 * result[2]
    known = tree.value[b, node]
    if tree.kind[b, node] != PENDING:
        # TERMINATED hides TRUNCATED, as in `expand`.
        known = float(tree.kind[b, node] - OPEN)
        ending = min(ending, 1.0) if result[1] > 0.0 else ending
    if tree.reward[b, node] != result[0] or known != ending:
        return False
    same = True
    for s in range(len(state)):
        same = same and (states[b, node, s] == state[s] or not draws.telling[s])
    return same


@kernel
def backup_rewards(
    tree: Tree,
    rows: Array,
    leaves: Array,
    rewards: Array,
    steps: Array,
    value: Array,
    discount: float,
) -> None:
    """Credit the rewards of L replays to the edges that were played, in place.

    Args:
        tree: the trees; the paths are counted in `unobserved`.
        rows: `[L]` tree of each leaf.
        leaves: `[L]` node that the replay was to reach.
        rewards: `[L, D]`, of the steps that were taken.
        steps: `[L]` how many were; nodes below are only taken out of flight.
        value: `[L]` what is expected after the last one, 0 if it terminated.
        discount: gamma.
    """
    for i in range(len(leaves)):
        b, node, depth = rows[i], leaves[i], 0
        # The leaf's depth first: rewards are indexed from the root, the path is walked up.
        while node != ROOT:
            depth += 1
            node = tree.parent[b, node]
        node, ret = leaves[i], value[i]
        while node != ROOT:
            tree.unobserved[b, node] -= 1
            # `depth` is the edge's, from 1: those below the ending were not played.
            if depth <= steps[i]:
                ret = rewards[i, depth - 1] + discount * ret
                tree.visits[b, node] += 1
                mean = np.float64(tree.q[b, node])
                tree.q[b, node] = np.float32(mean + (ret - mean) / tree.visits[b, node])
                tree.q_low[b] = min(tree.q_low[b], tree.q[b, node])
                tree.q_high[b] = max(tree.q_high[b], tree.q[b, node])
            depth -= 1
            node = tree.parent[b, node]
        tree.visits[b, ROOT] += 1
        tree.unobserved[b, ROOT] -= 1
        mean = np.float64(tree.q[b, ROOT])
        tree.q[b, ROOT] = np.float32(mean + (ret - mean) / tree.visits[b, ROOT])

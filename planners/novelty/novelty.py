"""Novelty tables of seen features, with their kernels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.core.compiling.jit import kernel, kernel_part
from plangym_ext.planners.novelty.features import TOLD_APART
from plangym_ext.planners.novelty.pairs import NEVER, CountBonus, Pairs, no_bonus, see_pairs
from plangym_ext.planners.trees.tree import (
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

# Chances are compared in so many parts.
_PARTS = 2**24

# What a step down the tree comes to, besides a new node.
STOPPED, FULL = -1, -2


class Novelty(NamedTuple):
    """Feature tables of B searches."""

    table: npt.NDArray[np.int32]  # [B, TOLD_APART] least depth at which a feature was seen
    features: npt.NDArray[np.int64]  # [B, N, F] of each node, -1 where it has fewer
    depth: npt.NDArray[np.int32]  # [B, N]
    solved: npt.NDArray[np.bool_]  # [B, N] True: nothing new is to be found below
    met: npt.NDArray[np.bool_]  # [B, N] whether this search has seen the node
    chance: npt.NDArray[np.uint64]  # [B] states of the generators of random walks
    pairs: Pairs | None  # of features; None where they are not looked at
    rare: CountBonus  # for what the episode has seldom shown


def new_novelty(
    batch: int,
    capacity: int,
    num_features: int,
    pairs: Pairs | None = None,
    rare: CountBonus | None = None,
) -> Novelty:
    """Return empty feature tables."""
    return Novelty(
        table=np.full((batch, TOLD_APART), NEVER, np.int32),
        features=np.full((batch, capacity, num_features), -1, np.int64),
        depth=np.zeros((batch, capacity), np.int32),
        solved=np.zeros((batch, capacity), np.bool_),
        met=np.zeros((batch, capacity), np.bool_),
        chance=np.ones(batch, np.uint64),
        pairs=pairs,
        rare=no_bonus(batch, capacity) if rare is None else rare,
    )


def subset(novelty: Novelty, rows: npt.NDArray[np.intp]) -> Novelty:
    """Return the tables of some rows `[n]`."""
    pairs = novelty.pairs
    if pairs is not None:
        pairs = Pairs._make([field[rows] for field in pairs])
    rare = CountBonus._make([field[rows] for field in novelty.rare])
    return Novelty._make([*(field[rows] for field in novelty[:-2]), pairs, rare])


@kernel_part
def shows_new_pairs(
    tree: Tree, novelty: Novelty, pairs: Pairs | None, b: int, node: int, slack: int
) -> bool:
    """Write a node's pairs of features into the tables; return as `see`."""
    # An argument that is None is a type of its own: what follows is not even compiled then.
    if pairs is None:
        return False
    here, parent = novelty.features[b, node], tree.parent[b, node]
    before = novelty.features[b, parent] if parent != NO_PARENT else here[:0]
    return see_pairs(pairs, b, here, before, novelty.depth[b, node], slack)


@kernel_part
def see(tree: Tree, novelty: Novelty, b: int, node: int, slack: int) -> bool:
    """Write a node's features into the tables; return whether one was new at its depth.

    New is what was never seen at a depth less than the node's, or, with a slack of
    0, not even at that depth; 1 allows the node's own earlier visit.
    """
    depth, new = novelty.depth[b, node], False
    novelty.met[b, node] = True
    for i in range(novelty.features.shape[2]):
        feature = novelty.features[b, node, i]
        if feature >= 0:
            at = feature % TOLD_APART
            new |= depth < novelty.table[b, at] + slack
            novelty.table[b, at] = min(novelty.table[b, at], depth)
    return new | shows_new_pairs(tree, novelty, novelty.pairs, b, node, slack)


@kernel_part
def solve(tree: Tree, novelty: Novelty, b: int, node: int) -> None:
    """Mark a node as solved, and each ancestor whose legal actions are all solved."""
    novelty.solved[b, node] = True
    node = tree.parent[b, node]
    while node != NO_PARENT:
        for a in range(tree.children.shape[2]):
            child = tree.children[b, node, a]
            if tree.legal[b, node, a] and (child == UNVISITED or not novelty.solved[b, child]):
                return
        novelty.solved[b, node] = True
        node = tree.parent[b, node]


@kernel_part
def draw_below(novelty: Novelty, b: int, bound: int) -> int:
    """Draw from 0, ..., bound - 1; xorshift64* (Vigna 2016), one generator per tree."""
    x = novelty.chance[b]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    novelty.chance[b] = x
    # The top bits are the good ones; 31 of them fit any index.
    return int((x >> np.uint64(33)) % np.uint64(bound))


@kernel_part
def happens(novelty: Novelty, b: int, chance: float) -> bool:
    """Draw a Bernoulli variable; at probability 0 no number is drawn."""
    return chance > 0.0 and draw_below(novelty, b, _PARTS) < chance * _PARTS


@kernel_part
def leads_on(tree: Tree, novelty: Novelty, b: int, node: int, action: int) -> bool:
    """Return whether a walk may take an action: legal, its child neither solved nor pending."""
    child = tree.children[b, node, action]
    return tree.legal[b, node, action] and (
        child == UNVISITED or not (novelty.solved[b, child] or tree.kind[b, child] == PENDING)
    )


@kernel_part
def drawn_action(tree: Tree, novelty: Novelty, b: int, node: int, guided: bool) -> int:
    """Draw an action that leads on, by the node's prior if guided; NO_ACTION if there is none."""
    count, mass = 0, 0.0
    for a in range(tree.children.shape[2]):
        if leads_on(tree, novelty, b, node, a):
            count += 1
            mass += np.float64(tree.prior[b, node, a])
    if count == 0:
        return NO_ACTION
    if guided and mass > 0.0:
        return action_at(tree, novelty, b, node, mass * draw_below(novelty, b, _PARTS) / _PARTS)
    left = draw_below(novelty, b, count)
    for a in range(tree.children.shape[2]):
        if leads_on(tree, novelty, b, node, a):
            if left == 0:
                return a
            left -= 1
    return NO_ACTION


@kernel_part
def action_at(tree: Tree, novelty: Novelty, b: int, node: int, mass: float) -> int:
    """Return the first action that leads on at which the summed prior exceeds `mass`."""
    action = NO_ACTION
    for a in range(tree.children.shape[2]):
        prior = np.float64(tree.prior[b, node, a])
        if prior > 0.0 and leads_on(tree, novelty, b, node, a):
            # A remainder from rounding goes to the last action.
            action = a
            mass -= prior
            if mass < 0.0:
                break
    return action


@kernel_part
def best_action(tree: Tree, novelty: Novelty, b: int, node: int, returns: Array) -> int:
    """Return the action to the best child that leads on; NO_ACTION if none is there yet."""
    action, best = NO_ACTION, -np.inf
    for i in range(tree.children.shape[2]):
        a = tree.order[b, i]
        child = tree.children[b, node, a]
        known = child != UNVISITED and leads_on(tree, novelty, b, node, a)
        if known and returns[b, child] > best:
            action, best = a, returns[b, child]
    return action


class Walks(NamedTuple):
    """Parameters of random walks."""

    max_depth: int  # nothing is looked for below
    ends_below: float  # a node whose reward is less is an end; not the root, played already
    persistence: float  # chances of walks to repeat the action before are drawn below this
    greed: float  # share of the choices at which the best branch so far is followed
    guided: bool  # whether actions are drawn by the nodes' priors; all alike if not


@kernel_part
def walk_down(
    tree: Tree, novelty: Novelty, walks: Walks, b: int, node: int, repeats: float, returns: Array
) -> int:
    """Walk down from a node to a missing child, and allocate that child.

    Actions are drawn, or at a share `repeats` of the nodes the one that led there is taken
    again; and at a share `greed` that of the best `returns`. Solved and pending children are
    left out. A child that is there already is gone through if it has something new at its
    depth, and is solved otherwise; a feature stays new to the node from which the search recorded
    it.

    Returns:
        The new node, pending; STOPPED if the walk ended without, FULL without room.
    """
    while True:
        lost = node != ROOT and tree.reward[b, node] < walks.ends_below
        if lost or novelty.depth[b, node] >= walks.max_depth:
            solve(tree, novelty, b, node)
            return STOPPED
        action = drawn_action(tree, novelty, b, node, walks.guided)
        if action == NO_ACTION:
            # What is in flight may lead on later; where nothing is allowed nothing will.
            if not tree.legal[b, node].any():
                solve(tree, novelty, b, node)
            return STOPPED
        last = tree.action[b, node]
        if happens(novelty, b, repeats) and last != NO_ACTION:
            action = last if leads_on(tree, novelty, b, node, last) else action
        if happens(novelty, b, walks.greed):
            best = best_action(tree, novelty, b, node, returns)
            action = action if best == NO_ACTION else best
        child = tree.children[b, node, action]
        if child == UNVISITED:
            if tree.size[b] == tree.parent.shape[1]:
                return FULL
            child = allocate(tree, b, node, action)
            novelty.depth[b, child] = novelty.depth[b, node] + 1
            novelty.solved[b, child] = novelty.met[b, child] = False
            return child
        # A node that was kept from the last move may not have been met by this search.
        slack = 1 if novelty.met[b, child] else 0
        if tree.kind[b, child] != OPEN or not see(tree, novelty, b, child, slack):
            solve(tree, novelty, b, child)
            return STOPPED
        node = child


@kernel
def next_nodes(
    tree: Tree,
    novelty: Novelty,
    walks: Walks,
    limits: Array,
    cursors: Array,
    repeats: Array,
    returns: Array,
    rows: Array,
    nodes: Array,
    which: Array,
) -> int:
    """Continue every walk of B trees to its next new node; return their number.

    Args:
        tree: the trees.
        novelty: what is known of them.
        walks: how they go.
        limits: `[B]` new nodes that each tree may have.
        cursors: `[B, W]` int32, node that each walk has come to; set to ROOT where a
            walk ended.
        repeats: `[B, W]` float64, each walk's chance to repeat an action; drawn here for those
            that begin.
        returns: `[B, N]` float64, best return through every node; read if `greed` is
            not 0.
        rows: `[B * W]` int32, written: the tree of each new node.
        nodes: `[B * W]` int32, written: its index.
        which: `[B * W]` int32, written: its walk.
    """
    total = 0
    for b in range(len(limits)):
        count = 0
        for w in range(cursors.shape[1]):
            found = STOPPED
            # A walk that ends without a new node is begun again: each solves a node.
            while found == STOPPED and count < limits[b] and not novelty.solved[b, ROOT]:
                start = cursors[b, w]
                if walks.persistence > 0.0 and start == ROOT:
                    repeats[b, w] = walks.persistence * draw_below(novelty, b, _PARTS) / _PARTS
                size = tree.size[b]
                found = walk_down(tree, novelty, walks, b, start, repeats[b, w], returns)
                cursors[b, w] = ROOT
                if found == STOPPED and start == ROOT and tree.size[b] == size and count > 0:
                    # What is left may all be in flight.
                    break
            if found >= 0:
                rows[total], nodes[total], which[total] = b, found, w
                total += 1
                count += 1
    return total


@kernel
def take_in(
    tree: Tree, novelty: Novelty, rows: Array, nodes: Array, which: Array, cursors: Array
) -> None:
    """Test L new nodes for novelty; walks continue from those with a new feature."""
    for i in range(len(nodes)):
        b, node = rows[i], nodes[i]
        if see(tree, novelty, b, node, 0) and tree.kind[b, node] == OPEN:
            cursors[b, which[i]] = node
        else:
            solve(tree, novelty, b, node)
            cursors[b, which[i]] = ROOT


@kernel
def best_returns(
    tree: Tree, bonus: Array, discount: float, risk: float, returns: Array, counts: Array
) -> None:
    """Write the best return through every node, its own reward and bonus included.

    Args:
        tree: the trees.
        bonus: `[B, N]` float64, what each node is worth beside its reward, and more than the root.
        discount: gamma.
        risk: weight of negative rewards.
        returns: `[B, N]` float64, written.
        counts: `[B, N]` int64, written: nodes below and including each.
    """
    for b in range(len(tree.size)):
        for n in range(tree.size[b] - 1, -1, -1):
            best, known = 0.0, False
            counts[b, n] = 1
            for a in range(tree.children.shape[2]):
                child = tree.children[b, n, a]
                if child != UNVISITED:
                    counts[b, n] += counts[b, child]
                    if not known or returns[b, child] > best:
                        best, known = returns[b, child], True
            if n == ROOT:
                returns[b, n] = best
                continue
            reward = tree.reward[b, n]
            earned = reward * (risk if reward < 0 else 1.0) + bonus[b, n] - bonus[b, ROOT]
            returns[b, n] = earned + discount * best

"""Tree: B search trees as arrays, with the kernels that write them.

A node is an index into axis 1. It stands for one state, and it carries the
edge that leads to it: the action played in the parent, the reward, and the
discount of what follows. Slots are handed out in order, so a parent's index is
always smaller than its children's; `reroot` relies on that.

Statistics are float32 running means, not sums. A mean keeps the magnitude of
a single return however many are averaged, selection reads it without a
division, and half the bytes travel. Each update is computed in float64 and
rounded once, so after n returns of magnitude at most M the error is at most
(n + 1) / 2 * 2**-24 * M (about 3e-4 M after 10,000 visits); roundings that
fall either way give about sqrt(n) / 3 * 2**-24 * M.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.core.compiling.jit import kernel, kernel_inline, kernel_part

ROOT = 0
NO_PARENT = NO_ACTION = UNVISITED = -1

# Kinds of node. Only open ones can be selected from.
PENDING, OPEN, TERMINATED, TRUNCATED = 0, 1, 2, 3
# What follows an action, before chance has decided; of searches with nodes of chance.
CHANCE = 4
# No simulation has come to a state of it yet that goes on; of searches over sequences of actions.
UNSEEN = 5

Array = npt.NDArray[Any]


class Tree(NamedTuple):
    """B trees of at most N nodes and A actions; kernels write in place.

    Rewards, discounts and ratings are kept as they came (float64).
    """

    size: npt.NDArray[np.int32]  # [B] nodes in use
    order: npt.NDArray[np.int32]  # [B, A] ties go to the action that comes first here
    q_low: npt.NDArray[np.float32]  # [B] smallest q that any node has had
    q_high: npt.NDArray[np.float32]  # [B] largest
    parent: npt.NDArray[np.int32]  # [B, N] NO_PARENT at the root
    action: npt.NDArray[np.int32]  # [B, N] played in the parent; NO_ACTION at the root
    kind: npt.NDArray[np.uint8]  # [B, N] PENDING until the model has answered
    reward: npt.NDArray[np.float64]  # [B, N] of the edge into the node
    discount: npt.NDArray[np.float64]  # [B, N] gamma, 0 only after termination; see `expand`
    value: npt.NDArray[np.float64]  # [B, N] the leaf rater's estimate, made once
    visits: npt.NDArray[np.int32]  # [B, N] returns averaged in q
    unobserved: npt.NDArray[np.int32]  # [B, N] simulations below, not yet backed up
    q: npt.NDArray[np.float32]  # [B, N] mean return as the parent saw it, reward included
    children: npt.NDArray[np.int32]  # [B, N, A] UNVISITED where none
    prior: npt.NDArray[np.float32]  # [B, N, A] probabilities; 0 where illegal
    legal: npt.NDArray[np.bool_]  # [B, N, A] False: never selected


def new_tree(batch: int, capacity: int, num_actions: int) -> Tree:
    """Return B trees that hold an open root each, with a uniform prior."""
    nodes = (batch, capacity)
    edges = (batch, capacity, num_actions)
    tree = Tree(
        size=np.ones(batch, np.int32),
        order=np.tile(np.arange(num_actions, dtype=np.int32), (batch, 1)),
        q_low=np.full(batch, np.inf, np.float32),
        q_high=np.full(batch, -np.inf, np.float32),
        parent=np.full(nodes, NO_PARENT, np.int32),
        action=np.full(nodes, NO_ACTION, np.int32),
        kind=np.full(nodes, PENDING, np.uint8),
        reward=np.zeros(nodes),
        discount=np.ones(nodes),
        value=np.zeros(nodes),
        visits=np.zeros(nodes, np.int32),
        unobserved=np.zeros(nodes, np.int32),
        q=np.zeros(nodes, np.float32),
        children=np.full(edges, UNVISITED, np.int32),
        prior=np.zeros(edges, np.float32),
        legal=np.ones(edges, np.bool_),
    )
    # As `restart`, which takes long to compile, for trees that may never be searched again.
    tree.kind[:, ROOT], tree.prior[:, ROOT] = OPEN, 1.0 / num_actions
    return tree


@kernel
def restart(tree: Tree, rows: Array) -> None:
    """Reduce the trees `rows` `[n]` to an open, unvisited root with a uniform prior."""
    for b in rows:
        tree.size[b] = 1
        tree.q_low[b], tree.q_high[b] = np.inf, -np.inf
        tree.parent[b, ROOT] = NO_PARENT
        tree.action[b, ROOT] = NO_ACTION
        tree.kind[b, ROOT] = OPEN
        tree.value[b, ROOT] = 0.0
        tree.visits[b, ROOT] = 0
        tree.unobserved[b, ROOT] = 0
        tree.q[b, ROOT] = 0.0
        for a in range(tree.children.shape[2]):
            tree.children[b, ROOT, a] = UNVISITED
            tree.prior[b, ROOT, a] = 1.0 / tree.prior.shape[2]
            tree.legal[b, ROOT, a] = True


@kernel_inline
def restrict_prior(tree: Tree, b: int, node: int) -> None:
    """Renormalise the prior of a node over its legal actions, in place.

    It becomes uniform over them where the prior gives them no weight, and does not change where no
    action is legal.

    Source: Silver et al. 2017, Methods: illegal moves get probability zero and the rest
    is renormalised; mctx masks the logits, which is the same.
    """
    mass, count = 0.0, 0
    for a in range(tree.prior.shape[2]):
        if tree.legal[b, node, a]:
            # float64 on purpose, in both ways of running this.
            mass += np.float64(tree.prior[b, node, a])
            count += 1
    if count == 0:
        return
    for a in range(tree.prior.shape[2]):
        share = 0.0
        if tree.legal[b, node, a]:
            share = np.float64(tree.prior[b, node, a]) / mass if mass > 0.0 else 1.0 / count
        tree.prior[b, node, a] = np.float32(share)


@kernel_inline
def allocate(tree: Tree, b: int, parent: int, action: int) -> int:
    """Hand out the next slot of tree b as a pending child; there must be room.

    The slot may have been used before a `reroot`, so whatever selection reads
    of a pending node is written here; `expand` writes the rest.
    """
    slot = tree.size[b]
    tree.size[b] += 1
    tree.parent[b, slot] = parent
    tree.action[b, slot] = action
    tree.kind[b, slot] = PENDING
    tree.visits[b, slot] = 0
    tree.unobserved[b, slot] = 0
    tree.q[b, slot] = 0.0
    tree.children[b, slot, :] = UNVISITED
    tree.children[b, parent, action] = slot
    return slot


class NewNodes(NamedTuple):
    """Results of model and rater for M new nodes, K of which were rated."""

    rows: npt.NDArray[np.integer[Any]]  # [M] tree of each
    nodes: npt.NDArray[np.integer[Any]]  # [M] its index there
    terminated: npt.NDArray[np.bool_]  # [M]
    truncated: npt.NDArray[np.bool_]  # [M]
    reward: npt.NDArray[np.float64]  # [M] of the edge into the node
    value: npt.NDArray[np.float64]  # [K] estimated return from the node on
    prior: npt.NDArray[np.float32]  # [K, A], renormalised over legal actions; [0, A]: uniform
    legal: npt.NDArray[np.bool_]  # [M, A]; [0, A]: everything
    # [M] whether the other player moves next; [0]: never
    swaps: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)


@kernel_part
def expand(tree: Tree, new: NewNodes, discount: float) -> None:
    """Write the results of model and rater into new nodes, in place.

    Where the other player moves next, later rewards count for that player and against this one:
    such an edge has the discount -gamma, so that all returns of a node's actions, and its rating,
    are those of the player who moves there.

    Args:
        tree: the trees, in which the nodes are pending.
        new: M nodes.
        discount: gamma; what terminated has 0.

    Source: the sign after mctx, which discounts by -1 in two-player games.
    """
    uniform = np.float32(1.0 / tree.prior.shape[2])
    rated = 0
    for i in range(len(new.nodes)):
        b, n = new.rows[i], new.nodes[i]
        tree.reward[b, n] = new.reward[i]
        tree.value[b, n] = 0.0
        # Number by number: of one array in another, all of the error's text is compiled too.
        for a in range(tree.legal.shape[2]):
            tree.prior[b, n, a] = uniform
            tree.legal[b, n, a] = new.legal[i, a] if len(new.legal) else True
        if new.terminated[i]:
            tree.kind[b, n] = TERMINATED
            tree.discount[b, n] = 0.0
            continue
        tree.kind[b, n] = TRUNCATED if new.truncated[i] else OPEN
        tree.discount[b, n] = discount
        if len(new.swaps) and new.swaps[i]:
            tree.discount[b, n] = -discount
        tree.value[b, n] = new.value[rated]
        if len(new.prior):
            for a in range(tree.prior.shape[2]):
                tree.prior[b, n, a] = new.prior[rated, a]
        if len(new.legal):
            restrict_prior(tree, b, n)
        rated += 1


@kernel_inline
def backup_leaf(tree: Tree, b: int, leaf: int) -> None:
    """Credit one simulation to every edge from a leaf of tree b up, as `backup` does."""
    node = leaf
    ret = tree.value[b, node]
    while node != ROOT:
        # Discount first: a terminated edge has discount 0, which hides
        # whatever value its node holds; a truncated one bootstraps.
        ret = tree.reward[b, node] + tree.discount[b, node] * ret
        tree.visits[b, node] += 1
        tree.unobserved[b, node] -= 1
        # float64 on purpose, in both ways of running this: see the module.
        mean = np.float64(tree.q[b, node])
        tree.q[b, node] = q = np.float32(mean + (ret - mean) / tree.visits[b, node])
        # `min` and `max` are functions to be compiled, one for each type.
        tree.q_low[b] = q if q < tree.q_low[b] else tree.q_low[b]
        tree.q_high[b] = q if q > tree.q_high[b] else tree.q_high[b]
        node = tree.parent[b, node]
    # The root has no incoming edge: its q is the mean return from it on.
    tree.visits[b, ROOT] += 1
    tree.unobserved[b, ROOT] -= 1
    mean = np.float64(tree.q[b, ROOT])
    tree.q[b, ROOT] = np.float32(mean + (ret - mean) / tree.visits[b, ROOT])


@kernel_part
def backup(tree: Tree, rows: Array, leaves: Array) -> None:
    """Credit one simulation per leaf to every edge up to its root, in place.

    Each simulation must have been counted in `unobserved` by the selection;
    here it becomes observed. The order of the leaves is the order of rounding.

    Args:
        tree: the trees.
        rows: `[L]` int, the tree of each leaf.
        leaves: `[L]` int, the node that the simulation ended on.

    Source: Kocsis & Szepesvari 2006, "Bandit based Monte-Carlo Planning";
    counts of unobserved visits after Liu et al. 2020, "Watch the Unobserved".
    """
    for i in range(len(leaves)):
        backup_leaf(tree, rows[i], leaves[i])


@kernel
def summarize(
    tree: Tree,
    visits: Array,
    q: Array,
    weights: Array,
    best: Array,
    depths: Array,
    depth: Array,
) -> None:
    """Read off every root: how often each action was tried, and what it gave.

    The best action has most visits, then the highest q, then comes first in
    the tree's order.

    Args:
        tree: the trees.
        visits: `[B, A]` int64, written.
        q: `[B, A]` float64, written; NaN where never tried.
        weights: `[B, A]` float64, written: shares of the visits; of none the zeros that they are.
        best: `[B]` int64, written; -1 if nothing was tried.
        depths: `[B]` int64, written: depth of the deepest node. Here, as another kernel would take
            half a second to compile.
        depth: `[N]` int64, overwritten.
    """
    for b in range(len(best)):
        best[b] = NO_ACTION
        depths[b] = _depth_of(tree.parent[b], tree.size[b], depth)
        total = 0
        for i in range(tree.order.shape[1]):
            a = tree.order[b, i]
            child = tree.children[b, ROOT, a]
            visits[b, a] = 0
            q[b, a] = np.nan
            if child == UNVISITED or tree.visits[b, child] == 0:
                continue
            visits[b, a] = tree.visits[b, child]
            total += visits[b, a]
            q[b, a] = tree.q[b, child]
            top = best[b]
            if (
                top == NO_ACTION
                or visits[b, a] > visits[b, top]
                or (visits[b, a] == visits[b, top] and q[b, a] > q[b, top])
            ):
                best[b] = a
        for a in range(visits.shape[1]):
            weights[b, a] = visits[b, a] / (total if total > 0 else 1)


@kernel_part
def _depth_of(parent: Array, size: int, depth: Array) -> int:
    """Return the depth of the deepest node of a tree; `depth` `[N]` gets those of its nodes."""
    # Without the tree, whose arrays would be taken apart and compiled once more.
    most = depth[ROOT] = 0
    for n in range(1, size):
        # Parents come before their children.
        depth[n] = depth[parent[n]] + 1
        if depth[n] > most:
            most = depth[n]
    return most


@kernel
def deepest(tree: Tree, depths: Array, depth: Array) -> None:
    """Write the depth of the deepest node of each tree, `[B]` int64.

    Args:
        tree: the trees.
        depths: `[B]` int64, written.
        depth: `[N]` int64, overwritten.
    """
    for b in range(len(depths)):
        depths[b] = _depth_of(tree.parent[b], tree.size[b], depth)


@kernel
def reroot(tree: Tree, b: int, new_root: int, legal: Array, remap: Array) -> None:
    """Make `new_root` the root of tree b and drop all that is not below it.

    Kept nodes keep their order and their statistics and move to the front. Branches below actions
    that are illegal in the new root are dropped too, so that the root's statistics are those of its
    legal actions.

    Args:
        tree: the trees; nothing may be pending in tree b.
        b: which tree.
        new_root: an open node of it.
        legal: `[A]` bool, what the new root allows; no action that its node did not.
        remap: `[N]` int32, written: the new index of each old node, -1 where
            dropped or unused.
    """
    size = tree.size[b]
    remap[:] = -1
    remap[new_root] = ROOT
    count = 0
    # A kept node moves to an index not above its own, and everything below
    # the one being moved has been read already, so one array is enough.
    for old in range(new_root, size):
        if old != new_root:
            above = remap[tree.parent[b, old]]
            if above == -1 or (above == ROOT and not legal[tree.action[b, old]]):
                continue
            remap[old] = count
            tree.parent[b, count] = above
            tree.action[b, count] = tree.action[b, old]
        tree.kind[b, count] = tree.kind[b, old]
        tree.reward[b, count] = tree.reward[b, old]
        tree.discount[b, count] = tree.discount[b, old]
        tree.value[b, count] = tree.value[b, old]
        tree.visits[b, count] = tree.visits[b, old]
        tree.unobserved[b, count] = tree.unobserved[b, old]
        tree.q[b, count] = tree.q[b, old]
        for a in range(tree.children.shape[2]):
            tree.children[b, count, a] = tree.children[b, old, a]
            tree.prior[b, count, a] = tree.prior[b, old, a]
            tree.legal[b, count, a] = tree.legal[b, old, a]
        count += 1
    tree.size[b] = count
    tree.q_low[b], tree.q_high[b] = np.inf, -np.inf
    for n in range(count):
        for a in range(tree.children.shape[2]):
            if tree.children[b, n, a] != UNVISITED:
                tree.children[b, n, a] = remap[tree.children[b, n, a]]
        if n != ROOT:
            tree.q_low[b] = min(tree.q_low[b], tree.q[b, n])
            tree.q_high[b] = max(tree.q_high[b], tree.q[b, n])
    # What the old parent saw through the edge is not what the root returns:
    # count the simulations that went on from here, without the node's own.
    total, sims = 0.0, 0
    for a in range(tree.children.shape[2]):
        child = tree.children[b, ROOT, a]
        if child != UNVISITED:
            sims += tree.visits[b, child]
            total += tree.visits[b, child] * np.float64(tree.q[b, child])
    narrower = False
    for a in range(tree.legal.shape[2]):
        narrower |= tree.legal[b, ROOT, a] != legal[a]
        tree.legal[b, ROOT, a] = legal[a]
    # Only then: to renormalise what is normal already may change its last bits.
    if narrower:
        restrict_prior(tree, b, ROOT)
    tree.action[b, ROOT] = NO_ACTION
    tree.parent[b, ROOT] = NO_PARENT
    tree.visits[b, ROOT] = sims
    tree.q[b, ROOT] = np.float32(total / sims) if sims > 0 else np.float32(0.0)

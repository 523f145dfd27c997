"""Kernels of entropy-regularised tree search: policies, values, backups.

For returns q of the actions of a node and a temperature t these are

    policy = argmax over p of  p . q + t * entropy(p),    value = the maximum,

a softmax and a logarithm of a sum for Shannon's entropy, a projection on the simplex for
Tsallis' (1 - sum p^2) / 2.

Sources: Xiao et al. 2019, "Maximum entropy Monte-Carlo planning" (MENTS); Dam et al. 2021,
"Convex regularization in Monte-Carlo tree search" (TENTS); Painter et al. 2023, "Monte Carlo
tree search with Boltzmann exploration" (BTS, DENTS); Kozakowski et al. 2022, "Planning and
learning using adaptive entropy tree search" (ANTS).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.core.compiling.jit import kernel, kernel_inline, kernel_part
from plangym_ext.planners.trees.rules import SCALE_TREE
from plangym_ext.planners.trees.tree import (
    NO_ACTION,
    OPEN,
    PENDING,
    ROOT,
    UNVISITED,
    Array,
    Tree,
    allocate,
)

# What a node is worth: the maximum above with one of the entropies, or the largest return.
SHANNON, TSALLIS, LARGEST = 0, 1, 2

#: Steps of the bisection for a temperature, which halve an interval of `_DECADES`.
_BISECTIONS = 40
_DECADES = 6.0


class Soft(NamedTuple):
    """Rule, scale, temperatures and node statistics of B entropy-regularised trees."""

    rule: int  # SHANNON, TSALLIS or LARGEST
    scale: int  # SCALE_NONE or SCALE_TREE: what the temperature is measured in
    epsilon: float  # see `exploration`
    entropy_weight: float  # of the entropy below an action, at first; 0: none is counted
    temperature: npt.NDArray[np.float64]  # [B]
    value: npt.NDArray[np.float64]  # [B, N] of what follows each node
    entropy: npt.NDArray[np.float64]  # [B, N] of the policies that follow, discounted
    plain: npt.NDArray[np.float64]  # [B, N] of what follows each node, no entropy counted
    returns: npt.NDArray[np.float64]  # [B, A] to write on
    policy: npt.NDArray[np.float64]  # [B, A] to write on


# A node ----------------------------------------------------------------------------------


@kernel_inline
def unit(tree: Tree, b: int, soft: Soft) -> float:
    """Return what a temperature of 1 is: a return of 1, or the spread of all in the tree.

    Of returns without entropy: the spread of those with it grows with the temperature, which
    would grow with the spread, and so on.
    """
    spread = np.float64(tree.q_high[b]) - np.float64(tree.q_low[b])
    return spread if soft.scale == SCALE_TREE and spread > 0.0 else 1.0


@kernel_part
def known_returns(tree: Tree, b: int, node: int, soft: Soft, out: Array) -> int:
    """Write the return of every action of a node, -inf where there is none yet.

    With `entropy_weight` w the entropy below an action counts w / log(e + n) times, for n
    visits of the node.

    Returns:
        How many have one.
    """
    weight = soft.entropy_weight
    if weight > 0.0:
        weight *= unit(tree, b, soft) / math.log(math.e + tree.visits[b, node])
    count = 0
    for a in range(len(out)):
        child = tree.children[b, node, a]
        out[a] = -np.inf
        if child != UNVISITED and tree.visits[b, child] > 0:
            out[a] = np.float64(tree.q[b, child])
            out[a] += weight * tree.discount[b, child] * soft.entropy[b, child]
            count += 1
    return count


@kernel_part
def write_policy(returns: Array, temperature: float, tsallis: bool) -> None:
    """Turn returns `[A]`, at least one of them finite, into the policy, in place."""
    top = -np.inf
    for a in range(len(returns)):
        top = max(top, returns[a])
    if not tsallis:
        total = 0.0
        for a in range(len(returns)):
            returns[a] = math.exp((returns[a] - top) / temperature)
            total += returns[a]
        for a in range(len(returns)):
            returns[a] /= total
        return
    # Those with weight exceed a threshold that they make themselves: all are taken to, and
    # what does not is left out, until all do (Michelot 1986).
    threshold, before, count = -np.inf, -1, 0
    while count != before:
        before, count, total = count, 0, 0.0
        for a in range(len(returns)):
            scaled = (returns[a] - top) / temperature
            if scaled > threshold and scaled > -np.inf:
                total += scaled
                count += 1
        threshold = (total - 1.0) / count
    for a in range(len(returns)):
        returns[a] = max((returns[a] - top) / temperature - threshold, 0.0)


@kernel_part
def set_value(tree: Tree, b: int, node: int, soft: Soft) -> None:
    """Write what follows a node is worth: by the actions with a return, or else its rating."""
    soft.value[b, node], soft.entropy[b, node] = tree.value[b, node], 0.0
    soft.plain[b, node] = tree.value[b, node]
    returns, policy = soft.returns[b], soft.policy[b]
    if known_returns(tree, b, node, soft, returns) == 0:
        return
    temperature = soft.temperature[b] * unit(tree, b, soft)
    for a in range(len(returns)):
        policy[a] = returns[a]
    write_policy(policy, temperature, soft.rule == TSALLIS)
    largest, expected, shannon, below, squares = -np.inf, 0.0, 0.0, 0.0, 0.0
    plain = 0.0
    for a in range(len(returns)):
        child = tree.children[b, node, a]
        if returns[a] == -np.inf:
            continue
        q = np.float64(tree.q[b, child])
        largest = max(largest, q)
        if policy[a] > 0.0:
            expected += policy[a] * q
            plain += policy[a] * plain_return(tree, b, child, soft)
            shannon -= policy[a] * math.log(policy[a])
            squares += policy[a] * policy[a]
            below += policy[a] * tree.discount[b, child] * soft.entropy[b, child]
    soft.entropy[b, node], soft.plain[b, node] = shannon + below, plain
    if soft.rule == LARGEST:
        # It counts no entropy itself.
        soft.value[b, node] = soft.plain[b, node] = largest
    elif soft.rule == SHANNON:
        soft.value[b, node] = expected + temperature * shannon
    else:
        soft.value[b, node] = expected + temperature * (1.0 - squares) / 2.0


@kernel_inline
def plain_return(tree: Tree, b: int, node: int, soft: Soft) -> float:
    """Return the reward of a node's edge and what follows it, no entropy counted."""
    return tree.reward[b, node] + tree.discount[b, node] * soft.plain[b, node]


@kernel_inline
def exploration(num_actions: int, visits: int, epsilon: float) -> float:
    """Return the share of the prior in what is tried: epsilon * A / log(1 + n), at most 1."""
    if visits < 1:
        return 1.0
    return min(1.0, epsilon * num_actions / math.log(1.0 + visits))


@kernel_part
def soft_action(tree: Tree, b: int, node: int, soft: Soft) -> int:
    """Return the action that brings visits closest to the policy, NO_ACTION if there is none.

    argmax_a p_a - n_a / (1 + n), with p the policy mixed with the prior. The papers draw
    from p; this has the same shares of visits without their chance, and a wave in flight
    spreads as p does (as Danihelka et al. 2022, (14)). An action without a return is
    expected to give what its node is worth.
    """
    num_actions = tree.order.shape[1]
    policy = soft.policy[b]
    known_returns(tree, b, node, soft, policy)
    tried, some = 0, False
    for a in range(num_actions):
        child = tree.children[b, node, a]
        some |= tree.legal[b, node, a]
        if not tree.legal[b, node, a]:
            policy[a] = -np.inf
        elif policy[a] == -np.inf:
            policy[a] = soft.value[b, node]
        if child != UNVISITED:
            tried += tree.visits[b, child] + tree.unobserved[b, child]
    if not some:
        return NO_ACTION
    write_policy(policy, soft.temperature[b] * unit(tree, b, soft), soft.rule == TSALLIS)
    share = exploration(num_actions, tried, soft.epsilon)
    best, best_score = NO_ACTION, -np.inf
    for i in range(num_actions):
        a = tree.order[b, i]
        if not tree.legal[b, node, a]:
            continue
        child, count = tree.children[b, node, a], 0
        if child != UNVISITED:
            # In flight: the model has been asked about this child already.
            if tree.kind[b, child] == PENDING:
                continue
            count = tree.visits[b, child] + tree.unobserved[b, child]
        score = (1.0 - share) * policy[a] + share * np.float64(tree.prior[b, node, a])
        score -= count / (1.0 + tried)
        # Strictly greater: among equals the first in the tree's order stays.
        if score > best_score:
            best, best_score = a, score
    return best


# Trees -----------------------------------------------------------------------------------


@kernel
def select_soft(tree: Tree, limits: Array, soft: Soft, rows: Array, leaves: Array) -> int:
    """Choose up to `limits[b]` leaves in every tree, new ones as pending nodes.

    Paths are counted in `unobserved`. A tree's share of the wave ends where all actions of a
    node are in flight, or at the tree's last node.

    Args:
        tree: the trees.
        limits: `[B]` int.
        soft: what they are searched with.
        rows: `[L]` int32, L >= limits.sum(), written: the tree of each leaf, ascending.
        leaves: `[L]` int32, written: its node.

    Returns:
        How many leaves there are.
    """
    count = 0
    for b in range(len(limits)):
        for _ in range(limits[b]):
            leaf = _leaf(tree, b, soft)
            if leaf < 0:
                break
            rows[count], leaves[count] = b, leaf
            count += 1
            node = leaf
            while node != ROOT:
                tree.unobserved[b, node] += 1
                node = tree.parent[b, node]
            tree.unobserved[b, ROOT] += 1
    return count


@kernel_part
def _leaf(tree: Tree, b: int, soft: Soft) -> int:
    """Walk tree b from its root to a leaf and return it; -1 if there is none to be had."""
    # As a literal, all that is called from here would be compiled a second time for it.
    node = int(np.int64(ROOT))
    while tree.kind[b, node] == OPEN:
        action = soft_action(tree, b, node, soft)
        if action == NO_ACTION:
            # A node that allows nothing is a leaf; one all of whose actions are in flight is not.
            for a in range(tree.legal.shape[2]):
                if tree.legal[b, node, a]:
                    return -1
            return node
        child = tree.children[b, node, action]
        if child == UNVISITED:
            full = tree.size[b] == tree.parent.shape[1]
            return -1 if full else allocate(tree, b, node, action)
        node = int(np.int64(child))
    return node


@kernel
def backup_soft(tree: Tree, soft: Soft, rows: Array, leaves: Array) -> None:
    """Take L simulations out of flight, and value all nodes above them anew, in place.

    A node's q is its reward and the discounted value of what follows: no mean.
    """
    for i in range(len(leaves)):
        # Of one type, as `revalue` has them: for others all would be compiled once more.
        b, node = int(np.int64(rows[i])), int(np.int64(leaves[i]))
        while True:
            tree.visits[b, node] += 1
            tree.unobserved[b, node] -= 1
            _settle(tree, b, node, soft)
            if node == ROOT:
                break
            node = int(np.int64(tree.parent[b, node]))


@kernel
def revalue(tree: Tree, soft: Soft, rows: Array) -> None:
    """Value all nodes of the trees `rows` `[n]` anew, in place; nothing is pending."""
    for i in range(len(rows)):
        b = int(np.int64(rows[i]))
        # A child's index is larger than its parent's.
        for node in range(tree.size[b] - 1, -1, -1):
            _settle(tree, b, node, soft)


@kernel
def spread_of_best(tree: Tree, soft: Soft, rows: Array) -> None:
    """Write the spread of the returns in trees whose best actions are played, in place.

    For trees that were kept: their q counts entropy, in the unit that the spread was. Measured by
    that, it would grow with every move.

    Args:
        tree: the trees; nothing is pending.
        soft: its `plain` is written.
        rows: `[n]`, which trees.
    """
    for i in range(len(rows)):
        b = int(np.int64(rows[i]))
        tree.q_low[b], tree.q_high[b] = np.inf, -np.inf
        # A child's index is larger than its parent's.
        for node in range(tree.size[b] - 1, -1, -1):
            best = -np.inf
            for a in range(tree.children.shape[2]):
                child = tree.children[b, node, a]
                if child != UNVISITED and tree.visits[b, child] > 0:
                    best = max(best, plain_return(tree, b, child, soft))
            soft.plain[b, node] = tree.value[b, node] if best == -np.inf else best
            if node != ROOT:
                q = np.float32(plain_return(tree, b, node, soft))
                tree.q_low[b] = min(tree.q_low[b], q)
                tree.q_high[b] = max(tree.q_high[b], q)


@kernel_part
def _settle(tree: Tree, b: int, node: int, soft: Soft) -> None:
    """Write value and q of a node whose children have theirs."""
    set_value(tree, b, node, soft)
    if node == ROOT:
        tree.q[b, ROOT] = np.float32(soft.value[b, ROOT])
        return
    # Discount first: a terminated edge has discount 0, which hides what its node holds.
    q = tree.reward[b, node] + tree.discount[b, node] * soft.value[b, node]
    tree.q[b, node] = np.float32(q)
    plain = np.float32(plain_return(tree, b, node, soft))
    tree.q_low[b] = min(tree.q_low[b], plain)
    tree.q_high[b] = max(tree.q_high[b], plain)


@kernel
def adapt_temperature(tree: Tree, soft: Soft, rows: Array, target: float) -> None:
    """Set the temperatures of the trees `rows` `[n]` so that their policies have an entropy.

    Of every node with two returns or more the entropy of the policy over these is taken, as a
    share of the most that it could be; `target` is the mean of the shares. It grows with the
    temperature, which is found by bisection. Trees without such a node keep theirs.

    Source: Kozakowski et al. 2022, section 4.
    """
    for b in rows:
        low, high = -_DECADES, _DECADES
        if mean_entropy(tree, b, soft, 1.0) < 0.0:
            continue
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2.0
            if mean_entropy(tree, b, soft, 10.0**middle) < target:
                low = middle
            else:
                high = middle
        soft.temperature[b] = 10.0 ** ((low + high) / 2.0)


@kernel_part
def mean_entropy(tree: Tree, b: int, soft: Soft, temperature: float) -> float:
    """Return the mean share of entropy in tree b that a temperature has, -1 if there is none."""
    total, count = 0.0, 0
    policy = soft.policy[b]
    temperature *= unit(tree, b, soft)
    for node in range(tree.size[b]):
        known = known_returns(tree, b, node, soft, policy)
        if known < 2:
            continue
        write_policy(policy, temperature, soft.rule == TSALLIS)
        entropy = 0.0
        for a in range(len(policy)):
            if policy[a] > 0.0:
                entropy -= policy[a] * math.log(policy[a])
        total += entropy / math.log(known)
        count += 1
    return total / count if count else -1.0


@kernel
def soft_summary(tree: Tree, soft: Soft, weights: Array, best: Array) -> None:
    """Write the policy at every root, and the action that is worth most.

    Args:
        tree: the trees; something was tried at each root.
        soft: what they were searched with.
        weights: `[B, A]` float64, written: the policy over the actions with a return.
        best: `[B]` int64, written: the largest q, then most visits, then the tree's order.
    """
    for b in range(len(best)):
        known_returns(tree, b, int(np.int64(ROOT)), soft, weights[b])
        write_policy(weights[b], soft.temperature[b] * unit(tree, b, soft), soft.rule == TSALLIS)
        best[b] = NO_ACTION
        most, visits = -np.inf, 0
        for i in range(tree.order.shape[1]):
            a = tree.order[b, i]
            child = tree.children[b, ROOT, a]
            if child == UNVISITED or tree.visits[b, child] == 0:
                continue
            q = np.float64(tree.q[b, child])
            if q > most or (q == most and tree.visits[b, child] > visits):
                best[b], most, visits = a, q, tree.visits[b, child]

"""Gumbel selection: sequential halving at the root, improved policies below.

Source of everything here: Danihelka et al. 2022, "Policy improvement by planning
with Gumbel", ICLR; numbers of equations are the paper's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.core.compiling.jit import kernel, kernel_part
from plangym_ext.planners.simulator import Rng
from plangym_ext.planners.trees.rules import value_scale
from plangym_ext.planners.trees.tree import NO_ACTION, PENDING, ROOT, UNVISITED, Array, Tree


class Halving(NamedTuple):
    """Root actions that B searches of n simulations still consider."""

    noise: npt.NDArray[np.float64]  # [B, A] weighted draws of Gumbel(0)
    considered: npt.NDArray[np.int32]  # [B, n] visits that an action must have to be next
    phase_end: npt.NDArray[np.int32]  # [B, n] first simulation of the next phase
    logits: npt.NDArray[np.float64]  # [B, A] to write on
    own: npt.NDArray[np.float64]  # [B] 1 where the root has a rating, 0 where it has none


def no_halving(batch: int) -> Halving:
    """Return the empty state before the first draw."""
    empty = np.zeros((batch, 0), np.int32)
    return Halving(np.zeros((batch, 0)), empty, empty, np.zeros((batch, 0)), np.zeros(batch))


def halving_schedule(num_considered: int, num_simulations: int) -> tuple[list[int], list[int]]:
    """Spread simulations over m actions, half of which are dropped after each phase.

    Every phase has an equal share of the simulations, at least one per action.

    Args:
        num_considered: m, actions to begin with, at least 1.
        num_simulations: n.

    Returns:
        For each of the n simulations: how often its action has been tried before,
        and the first simulation of the phase after it.

    Source: Karnin et al. 2013, "Almost optimal exploration in multi-armed
    bandits"; the paper's figure 1.
    """
    if num_considered <= 1:
        return list(range(num_simulations)), [num_simulations] * num_simulations
    phases = math.ceil(math.log2(num_considered))
    tried: list[int] = []
    ends: list[int] = []
    done, left = 0, num_considered
    while len(tried) < num_simulations:
        rounds = max(1, num_simulations // (phases * left))
        for _ in range(rounds):
            tried += [done] * left
            done += 1
        ends += [len(tried)] * (len(tried) - len(ends))
        # The last two are compared to the end: to drop one would leave nothing to choose.
        left = max(2, left // 2)
    return tried[:num_simulations], ends[:num_simulations]


def new_halving(
    tree: Tree,
    rngs: Sequence[Rng],
    num_considered: int,
    num_simulations: int,
    weight: float,
    rated: bool,
) -> Halving:
    """Draw the noise of all actions, and schedule the simulations of B searches.

    Args:
        tree: the trees; what their roots allow is read.
        rngs: B generators.
        num_considered: most actions to begin with.
        num_simulations: n.
        weight: that the noise is multiplied by.
        rated: whether the roots have a rating.
    """
    counts = tree.legal[:, ROOT].sum(axis=1).tolist()
    schedules = [halving_schedule(min(num_considered, n), num_simulations) for n in counts]
    considered, ends = np.array(schedules, np.int32).swapaxes(0, 1)
    # From each search's own generator: the rows of a batch do not affect each other.
    noise = weight * np.stack([rng.gumbel(size=tree.order.shape[1]) for rng in rngs])
    own = np.full(len(noise), float(rated))
    return Halving(noise, considered.copy(), ends.copy(), np.empty_like(noise), own)


@kernel_part
def improved_logits(
    tree: Tree,
    b: int,
    node: int,
    own: float,
    scale: int,
    c_visit: float,
    c_scale: float,
    out: Array,
) -> None:
    """Write log P(a) + sigma(completed q_a) of every action, -inf where illegal.

    sigma(q) = (c_visit + max_a n_a) * c_scale * norm(q) (8). An action without a
    return is completed by v_mix (33): the node's rating and the mean q under the
    prior of the actions tried, weighted `own` to the number of simulations. That is 1, but 0
    for a root that nothing has rated.
    """
    _, origin, width = value_scale(tree, b, node, scale)
    top, sims, mass, expected = 0, 0, 0.0, 0.0
    for a in range(out.shape[0]):
        child = tree.children[b, node, a]
        if child != UNVISITED and tree.visits[b, child] > 0:
            count = tree.visits[b, child]
            # A tried action may have had no prior; `mass` must not be 0.
            prior = max(np.float64(tree.prior[b, node, a]), 1e-30)
            top, sims = max(top, count), sims + count
            mass += prior
            expected += prior * np.float64(tree.q[b, child])
    mixed = tree.value[b, node]
    # Priors count over the tried actions alone, hence the division by their mass.
    if sims > 0:
        mixed = (own * mixed + sims * expected / mass) / (own + sims)
    factor = (c_visit + top) * c_scale
    for a in range(out.shape[0]):
        if not tree.legal[b, node, a]:
            out[a] = -np.inf
            continue
        child = tree.children[b, node, a]
        known = child != UNVISITED and tree.visits[b, child] > 0
        q = np.float64(tree.q[b, child]) if known else mixed
        # A prior of zero is no reason to take the logarithm of zero.
        out[a] = math.log(max(np.float64(tree.prior[b, node, a]), 1e-30))
        out[a] += factor * (q - origin) * width


@kernel_part
def halving_action(
    tree: Tree, b: int, halving: Halving, scale: int, c_visit: float, c_scale: float
) -> int:
    """Return the root action of the next simulation, NO_ACTION if it is in flight.

    Among the actions with the schedule's number of visits, it has the highest noise + log P +
    sigma(q).
    """
    logits = halving.logits[b]
    improved_logits(tree, b, ROOT, halving.own[b], scale, c_visit, c_scale, logits)
    now = tree.visits[b, ROOT] + tree.unobserved[b, ROOT]
    best, best_score = NO_ACTION, -np.inf
    for a in range(len(logits)):
        child = tree.children[b, ROOT, a]
        count = 0 if child == UNVISITED else tree.visits[b, child] + tree.unobserved[b, child]
        score = halving.noise[b, a] + logits[a]
        # The schedule names a number of visits, not an action: the best of those that have
        # been tried so often is next, so that each phase drops the worse half.
        if count == halving.considered[b, now] and score > best_score:
            best, best_score = a, score
    if best != NO_ACTION:
        child = tree.children[b, ROOT, best]
        if child != UNVISITED and tree.kind[b, child] == PENDING:
            return NO_ACTION
    return best


@kernel_part
def improved_action(
    tree: Tree, b: int, node: int, halving: Halving, scale: int, c_visit: float, c_scale: float
) -> int:
    """Return the action that brings visits closest to the improved policy (14).

    argmax_a softmax(improved logits)_a - n_a / (1 + n); NO_ACTION if there is none
    that is legal and not pending.
    """
    policy = halving.logits[b]
    improved_logits(tree, b, node, 1.0, scale, c_visit, c_scale, policy)
    if softmax(policy) == -np.inf:
        return NO_ACTION
    sims = 0
    for a in range(len(policy)):
        child = tree.children[b, node, a]
        if child != UNVISITED:
            sims += tree.visits[b, child] + tree.unobserved[b, child]
    best, best_score = NO_ACTION, -np.inf
    for i in range(tree.order.shape[1]):
        a = tree.order[b, i]
        child = tree.children[b, node, a]
        count = 0
        if not tree.legal[b, node, a]:
            continue
        if child != UNVISITED:
            if tree.kind[b, child] == PENDING:
                continue
            count = tree.visits[b, child] + tree.unobserved[b, child]
        # The share of visits that the action would have, against the share it should have.
        score = policy[a] - count / (1.0 + sims)
        if score > best_score:
            best, best_score = a, score
    return best


@kernel_part
def softmax(logits: Array) -> float:
    """Make weights that sum to 1 of logits `[A]`, in place; return the largest logit.

    If that is -inf the logits stay as they are.
    """
    top, total = -np.inf, 0.0
    for a in range(len(logits)):
        top = max(top, logits[a])
    if top == -np.inf:
        return top
    # Less the largest, so that exp cannot overflow; illegal actions have weight exp(-inf) = 0.
    for a in range(len(logits)):
        logits[a] = math.exp(logits[a] - top)
        total += logits[a]
    for a in range(len(logits)):
        logits[a] /= total
    return top


@kernel
def gumbel_summary(
    tree: Tree,
    halving: Halving,
    scale: int,
    c_visit: float,
    c_scale: float,
    weights: Array,
    best: Array,
) -> None:
    """Write the improved policy at every root, and the action that won the halving.

    Args:
        tree: the trees.
        halving: what they were searched with.
        scale: see `value_scale`.
        c_visit: see `improved_logits`.
        c_scale: see `improved_logits`.
        weights: `[B, A]` float64, written: softmax of the improved logits.
        best: `[B]` int64, written: of the actions with most visits the one with
            the highest noise + log P + sigma(q).
    """
    for b in range(len(best)):
        logits = weights[b]
        improved_logits(tree, b, ROOT, halving.own[b], scale, c_visit, c_scale, logits)
        best[b], most, best_score = NO_ACTION, 0, -np.inf
        for a in range(len(logits)):
            child = tree.children[b, ROOT, a]
            count = 0 if child == UNVISITED else tree.visits[b, child]
            score = halving.noise[b, a] + logits[a]
            if count > most or (count == most and count > 0 and score > best_score):
                best[b], most, best_score = a, count, score
        softmax(logits)

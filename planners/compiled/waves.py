"""Compiled loops over the simulation waves of B trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.core.compiling.jit import kernel_part
from plangym_ext.planners.compiled.leaves import Job, allowance, make_observe
from plangym_ext.planners.lockstep.search import Search
from plangym_ext.planners.simulator import SimulatorFunctions
from plangym_ext.planners.trees.gumbel import Halving
from plangym_ext.planners.trees.selection import Selection, select_leaves
from plangym_ext.planners.trees.sts_kernels import (
    Descent,
    begin_descent,
    credit_creation,
    end_descent,
    expand_nodes,
    go_on,
    new_descent,
    observed,
    select_nodes,
)
from plangym_ext.planners.trees.tree import (
    NO_PARENT,
    PENDING,
    ROOT,
    UNVISITED,
    Array,
    Tree,
    backup_leaf,
)

# Result of a wave that compiled code cannot handle. The trees are as before the wave.
LEFT = -1

#: Makes `wave(tree, job, selection, halving, places, b, lane) -> int` from `observe`: how
#: many simulations it has run in tree b, or LEFT.
MakeWave = Callable[[Callable[..., bool]], Callable[..., int]]


@kernel_part
def withdraw(tree: Tree, b: int, leaves: Array, count: int, size: int) -> None:
    """Take the first of selected simulations, and all nodes from `size` on, out of tree b."""
    for i in range(count):
        node = leaves[i]
        while node != NO_PARENT:
            tree.unobserved[b, node] -= 1
            node = tree.parent[b, node]
    for node in range(size, tree.size[b]):
        tree.children[b, tree.parent[b, node], tree.action[b, node]] = UNVISITED
    tree.size[b] = size


@kernel_part
def copy_counts(source: Array, target: Array, b: int) -> None:
    """Copy column b of `[4, B]`; a slice would bring in the text of its error, compiled."""
    for i in range(len(source)):
        target[i, b] = source[i, b]


def make_leaf_wave(observe: Callable[..., bool]) -> Callable[..., int]:
    """Return the wave of `MCTS`, as `Search.run_wave` has it, for one tree."""

    def wave(
        tree: Tree,
        job: Job,
        selection: Selection,
        halving: Halving | None,
        places: Any,
        b: int,
        lane: int,
    ) -> int:
        leaves, size = job.wave[b], tree.size[b]
        count = select_leaves(tree, b, allowance(job, b), selection, halving, leaves)
        for i in range(count):
            leaf = leaves[i]
            # Ended nodes that were chosen again need no model step.
            if tree.kind[b, leaf] == PENDING and not observe(tree, job, places, b, leaf, lane):
                withdraw(tree, b, leaves, count, size)
                return LEFT
        for i in range(count):
            backup_leaf(tree, b, leaves[i])
        job.done[b] += count
        job.full[b] = tree.size[b] == tree.parent.shape[1]
        return count

    return wave


def make_loop(
    functions: SimulatorFunctions,
    make_wave: MakeWave,
    value: Callable[[Any], float] | None,
    has_masks: bool,
) -> Callable[..., bool]:
    """Return the loop over trees and waves, to be compiled."""
    check = functions.check
    wave = make_wave(make_observe(functions, value, has_masks))

    # In one function: whatever calls all this is compiled with all of it once more.
    def loop(
        tree: Tree,
        job: Job,
        selection: Selection,
        halving: Halving | None,
        places: Any,
        first: int,
        stop: int,
        lane: int,
        waves: int,
    ) -> bool:
        """Run at most `waves` waves in each of some trees; whether there may be more."""
        more = False
        for b in range(first, stop):
            root = b * tree.parent.shape[1] + ROOT
            # A damaged root is left to the planner, whose model says what is wrong with it.
            count, run = 1 if check(places.context, places.nodes, root) else LEFT, 0
            while count > 0 and run < waves:
                used = job.used[b]
                # Simulations that end early leave steps for more than were drawn for.
                if used + allowance(job, b) * job.rollouts > job.drawn[b]:
                    break
                # A wave that is left to the planner must not have been counted here.
                copy_counts(job.counts, job.counts_before, b)
                count = wave(tree, job, selection, halving, places, b, lane)
                run += 1
                if count == LEFT:
                    copy_counts(job.counts_before, job.counts, b)
                    job.used[b] = used
            job.left[b] = count == LEFT
            more = more or count > 0
        return more

    return loop


# Compiled wave of Shoot Tree Search -------------------------------------------


class Shoot(NamedTuple):
    """Further data of `STS` waves, for trees of N nodes; one per thread."""

    num_expansions: int
    intermediate_backups: bool
    descent: Descent  # of one tree
    visits: npt.NDArray[np.int32]  # [N] before the wave
    q: npt.NDArray[np.float32]  # [N] before the wave


class Before(NamedTuple):
    """Copy of values of a tree of n nodes that a wave changes in place."""

    size: int  # n
    q_low: float
    q_high: float
    full: bool


def new_shoot(search: Search, num_expansions: int, intermediate_backups: bool) -> Shoot:
    """Return the data for the waves of a search; see `STS`."""
    tree = search.tree
    descent = new_descent(search.settings.wave_size, tree.order.shape[1])
    visits, q = np.empty_like(tree.visits[0]), np.empty_like(tree.q[0])
    return Shoot(num_expansions, intermediate_backups, descent, visits, q)


def make_shoot_wave(observe: Callable[..., bool]) -> Callable[..., int]:
    """Return the wave of `STS`, as `STS._wave` has it, for one tree."""

    def wave(
        tree: Tree,
        job: Job,
        selection: Selection,
        halving: Halving | None,
        places: Any,
        b: int,
        lane: int,
    ) -> int:
        shoot, descent = job.own, job.own.descent
        before = remember(tree, job.full, b, shoot)
        left = allowance(job, b)
        count = select_nodes(tree, b, left, selection, halving, None, descent.leaves)
        for i in range(count):
            descent.rows[i] = b
        going = begin_descent(tree, descent, count)
        for step in range(shoot.num_expansions):
            if going == 0:
                break
            new = expand_nodes(tree, descent, going, None)
            for i in range(new):
                # All of the wave is undone: the planner runs it again from its beginning.
                if not observe(tree, job, places, b, descent.new_nodes[i], lane):
                    undo(tree, job.full, b, shoot, count, before)
                    return LEFT
            credit_creation(tree, descent.new_rows, descent.new_nodes, new)
            early = shoot.intermediate_backups and step < shoot.num_expansions - 1
            going = go_on(
                tree, selection, halving, None, descent, going, job.full, step == 0, early
            )
        run = end_descent(tree, descent, count)
        observed(tree, descent.rows, descent.leaves, count)
        job.done[b] += run
        return run

    return wave


@kernel_part
def remember(tree: Tree, full: Array, b: int, shoot: Shoot) -> Before:
    """Copy what `undo` puts back: backups of intermediate values cannot be taken back."""
    for node in range(tree.size[b]):
        shoot.visits[node], shoot.q[node] = tree.visits[b, node], tree.q[b, node]
    return Before(tree.size[b], tree.q_low[b], tree.q_high[b], full[b])


@kernel_part
def undo(tree: Tree, full: Array, b: int, shoot: Shoot, count: int, before: Before) -> None:
    """Make tree b as it was before a wave that has selected `count` leaves."""
    withdraw(tree, b, shoot.descent.leaves, count, before.size)
    # Later nodes are gone; these were credited with values that are not to count.
    for node in range(before.size):
        tree.visits[b, node], tree.q[b, node] = shoot.visits[node], shoot.q[node]
    tree.q_low[b], tree.q_high[b], full[b] = before.q_low, before.q_high, before.full

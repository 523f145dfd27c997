"""Compiled loops over the simulation waves of B trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plangym_ext.core.compiling.jit import kernel_part
from plangym_ext.planners.compiled.leaves import Job, allowance, make_observe
from plangym_ext.planners.simulator import SimulatorFunctions
from plangym_ext.planners.trees.gumbel import Halving
from plangym_ext.planners.trees.selection import Selection, select_leaves
from plangym_ext.planners.trees.tree import (
    NO_PARENT,
    PENDING,
    ROOT,
    UNVISITED,
    Array,
    Tree,
    backup_leaf,
)

# What a wave returns that compiled code cannot handle. The trees are as before the wave.
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
            # Ended nodes that were chosen again have no need of the model.
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
                # A wave that is left to the planner must not have cost anything here.
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

"""Whole simulations in compiled code: loops over the waves of B trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plangym_ext.planners.borrowed import borrowed
from plangym_ext.planners.compiled_leaves import Job, allowance, make_observe
from plangym_ext.planners.gumbel import Halving
from plangym_ext.planners.selection import Selection, select_leaves
from plangym_ext.planners.simulator import Functions
from plangym_ext.planners.tree import PENDING, ROOT, Tree, backup_leaf

#: `waiting` of a tree whose root the simulator does not take.
REFUSED = -1
# What a wave returns that is left to somebody else, half done.
LEFT = -1

#: Makes `wave(tree, job, selection, halving, places, b, lane) -> int` from `observe`: how
#: many simulations it has run, or LEFT.
MakeWave = Callable[[Callable[..., bool]], Callable[..., int]]


def make_leaf_wave(observe: Callable[..., bool]) -> Callable[..., int]:
    """Return the wave of `MCTS`, as `Search.run_wave` has it, for one tree."""

    def wave(
        tree: Tree, job: Job, selection: Selection, halving: Halving, places: Any, b: int, lane: int
    ) -> int:
        leaves, size = job.wave[b], tree.size[b]
        steps, expansions, seen, restores = job.counts[:, b]
        used = job.used[b]
        count = select_leaves(tree, b, allowance(job, b), selection, halving, leaves)
        for i in range(count):
            # Ended nodes that were chosen again have no need of the model.
            if tree.kind[b, leaves[i]] == PENDING and not observe(
                tree, job, places, b, leaves[i], lane
            ):
                for node in range(size, tree.size[b]):
                    tree.kind[b, node] = PENDING
                job.counts[0, b], job.counts[1, b] = steps, expansions
                job.counts[2, b], job.counts[3, b] = seen, restores
                job.used[b], job.waiting[b] = used, count
                return LEFT
        for i in range(count):
            backup_leaf(tree, b, leaves[i])
        job.done[b] += count
        job.full[b] = tree.size[b] == tree.parent.shape[1]
        return count

    return wave


def make_loop(
    functions: Functions,
    make_wave: MakeWave,
    value: Callable[[Any], float] | None,
    has_masks: bool,
) -> Callable[..., bool]:
    """Return the loop over trees and waves, to be compiled."""
    check = functions.check
    wave = make_wave(make_observe(functions, value, has_masks))

    def loop(
        tree: Tree,
        job: Job,
        selection: Selection,
        halving: Halving,
        places: Any,
        first: int,
        stop: int,
        lane: int,
        waves: int,
    ) -> bool:
        """Run at most `waves` waves in each of some trees; whether there may be more."""
        tree, job = borrowed(tree), borrowed(job)
        halving, places = borrowed(halving), borrowed(places)
        more = False
        for b in range(first, stop):
            if not check(places.context, places.nodes, b * tree.parent.shape[1] + ROOT):
                job.waiting[b] = REFUSED
                continue
            count = 1
            for _ in range(waves):
                if job.used[b] + allowance(job, b) * job.rollouts > job.draws.shape[1]:
                    break
                count = wave(tree, job, selection, halving, places, b, lane)
                if count <= 0:
                    break
            more = more or count != 0
        return more

    return loop

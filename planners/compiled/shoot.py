"""The wave of Shoot Tree Search in compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.core.compiling.jit import kernel_part
from plangym_ext.planners.compiled.leaves import Job, allowance
from plangym_ext.planners.compiled.waves import LEFT, withdraw
from plangym_ext.planners.trees.gumbel import Halving
from plangym_ext.planners.trees.selection import Selection
from plangym_ext.planners.trees.sts_kernels import (
    begin_descent,
    credit_creation,
    end_descent,
    expand_nodes,
    go_on,
    observed,
    select_nodes,
)
from plangym_ext.planners.trees.tree import Array, Tree


class Before(NamedTuple):
    """What a wave changes in a tree of n nodes besides adding to it."""

    size: int  # n
    visits: npt.NDArray[np.int32]  # [n]
    q: npt.NDArray[np.float32]  # [n]
    q_low: float
    q_high: float
    full: bool


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
        before = remember(tree, job.full, b)
        count = select_nodes(tree, b, allowance(job, b), selection, halving, None, job.wave[b])
        rows, leaves = np.full(count, b, np.int32), job.wave[b, :count]
        descent, going = begin_descent(tree, rows, leaves)
        for step in range(job.num_expansions):
            if going == 0:
                break
            new_rows, new_nodes = expand_nodes(tree, descent, going, None)
            for i in range(len(new_nodes)):
                # All of the wave is undone: the planner runs it again from its beginning.
                if not observe(tree, job, places, b, new_nodes[i], lane):
                    undo(tree, job.full, b, leaves, before)
                    return LEFT
            credit_creation(tree, new_rows, new_nodes)
            early = job.intermediate_backups and step < job.num_expansions - 1
            going = go_on(
                tree, selection, halving, None, descent, going, job.full, step == 0, early
            )
        run = end_descent(tree, descent)
        observed(tree, rows, leaves)
        job.done[b] += run
        return run

    return wave


@kernel_part
def remember(tree: Tree, full: Array, b: int) -> Before:
    """Copy what `undo` puts back: backups of intermediate values cannot be taken back."""
    size = tree.size[b]
    visits, q = tree.visits[b, :size].copy(), tree.q[b, :size].copy()
    return Before(size, visits, q, tree.q_low[b], tree.q_high[b], full[b])


@kernel_part
def undo(tree: Tree, full: Array, b: int, leaves: Array, before: Before) -> None:
    """Make tree b as it was before a wave that has selected `leaves`."""
    withdraw(tree, b, leaves, before.size)
    # Later nodes are gone; these were credited with values that are not to count.
    for node in range(before.size):
        tree.visits[b, node], tree.q[b, node] = before.visits[node], before.q[node]
    tree.q_low[b], tree.q_high[b], full[b] = before.q_low, before.q_high, before.full

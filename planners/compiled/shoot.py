"""Compiled wave of Shoot Tree Search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.core.compiling.jit import kernel_part
from plangym_ext.planners.compiled.leaves import Job, allowance
from plangym_ext.planners.compiled.waves import LEFT, withdraw
from plangym_ext.planners.lockstep.search import Search
from plangym_ext.planners.trees.gumbel import Halving
from plangym_ext.planners.trees.selection import Selection
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
from plangym_ext.planners.trees.tree import Array, Tree


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

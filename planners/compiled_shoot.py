"""The wave of Shoot Tree Search in compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from plangym_ext.planners.compiled_leaves import Job, allowance
from plangym_ext.planners.compiled_waves import LEFT, withdraw
from plangym_ext.planners.gumbel import Halving
from plangym_ext.planners.multi_step import (
    add_children,
    backup_returns,
    credit_creation,
    follow,
    observed,
    select_nodes,
)
from plangym_ext.planners.selection import Selection
from plangym_ext.planners.tree import OPEN, Tree


def make_shoot_wave(observe: Callable[..., bool]) -> Callable[..., int]:
    """Return the wave of `STS`, as `STS._wave` has it, for one tree."""

    def expand(
        tree: Tree,
        job: Job,
        selection: Selection,
        halving: Halving | None,
        places: Any,
        b: int,
        lane: int,
        nodes: Any,
        counts: Any,
        chosen: Any,
    ) -> bool:
        """Expand nodes, and choose the child to follow of each; False if it was refused."""
        size, num_actions = nodes.size, tree.order.shape[1]
        rows = np.full(size, b, np.int32)
        new_rows = np.empty(size * num_actions, np.int32)
        new = np.empty(size * num_actions, np.int32)
        total = add_children(tree, rows, nodes, new_rows, new, counts)
        for i in range(total):
            if not observe(tree, job, places, b, new[i], lane):
                return False
        credit_creation(tree, new_rows[:total], new[:total])
        follow(tree, rows, nodes, selection, halving, chosen)
        return True

    def descend(
        tree: Tree,
        job: Job,
        selection: Selection,
        halving: Halving | None,
        places: Any,
        b: int,
        lane: int,
        leaves: Any,
    ) -> int:
        """Expand up to H nodes under every leaf; how many had room for one, or LEFT."""
        size = leaves.size
        at, above, going = leaves.copy(), leaves.copy(), np.empty(size, np.int32)
        returns = np.empty(size)
        owed, done = np.ones(size, np.bool_), np.ones(size, np.bool_)
        counts, chosen, nodes = going.copy(), going.copy(), going.copy()
        active = 0
        for i in range(size):
            returns[i] = tree.value[b, leaves[i]]
            if tree.kind[b, leaves[i]] == OPEN:
                going[active] = i
                active += 1
        for step in range(job.num_expansions):
            if active == 0:
                break
            for k in range(active):
                nodes[k] = at[going[k]]
            if not expand(
                tree,
                job,
                selection,
                halving,
                places,
                b,
                lane,
                nodes[:active],
                counts[:active],
                chosen[:active],
            ):
                return LEFT
            early = job.intermediate_backups and step < job.num_expansions - 1
            on = 0
            for k in range(active):
                i, child = going[k], chosen[k]
                if counts[k] < 0:
                    job.full[b] = True
                    done[i] = done[i] and step > 0
                    continue
                if child < 0:
                    continue
                above[i], returns[i] = at[i], tree.q[b, child]
                at[i], owed[i] = child, True
                if tree.kind[b, child] == OPEN:
                    owed[i] = not early
                    going[on] = i
                    on += 1
            active = on
            if early:
                credit(tree, b, going[:active], above, returns)
        count = 0
        for i in range(size):
            count += done[i]
            if owed[i] and done[i]:
                going[0] = i
                credit(tree, b, going[:1], above, returns)
        return count

    def credit(tree: Tree, b: int, which: Any, above: Any, returns: Any) -> None:
        rows = np.full(which.size, b, np.int32)
        backup_returns(tree, rows, above[which], returns[which])

    def wave(
        tree: Tree,
        job: Job,
        selection: Selection,
        halving: Halving | None,
        places: Any,
        b: int,
        lane: int,
    ) -> int:
        # Backups of intermediate values cannot be undone one by one.
        size, low, high = tree.size[b], tree.q_low[b], tree.q_high[b]
        full = job.full[b]
        leaves = job.wave[b]
        count = select_nodes(tree, b, allowance(job, b), selection, halving, leaves)
        visits, q = tree.visits[b, :size].copy(), tree.q[b, :size].copy()
        run = descend(tree, job, selection, halving, places, b, lane, leaves[:count])
        if run == LEFT:
            withdraw(tree, b, leaves[:count], size)
            for node in range(size):
                tree.visits[b, node], tree.q[b, node] = visits[node], q[node]
            tree.q_low[b], tree.q_high[b], job.full[b] = low, high, full
            return LEFT
        observed(tree, np.full(count, b, np.int32), leaves[:count])
        job.done[b] += run
        return run

    return wave

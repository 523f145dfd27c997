"""Tree-search waves whose rollout states are added to the tree."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.core.compiling.jit import kernel
from plangym_ext.planners.lockstep.search import Search
from plangym_ext.planners.rollouts.playouts import legal_actions
from plangym_ext.planners.trees.selection import select_wave
from plangym_ext.planners.trees.tree import (
    NO_ACTION,
    OPEN,
    PENDING,
    Array,
    Tree,
    allocate,
    backup,
)


def run_kept_wave(search: Search, depth: int) -> bool:
    """Select leaves, add random rollouts below them, back up; return False without a wave.

    Args:
        search: rates its nodes itself: what follows the last node of a rollout is its value.
        depth: most nodes that a rollout adds below its leaf.
    """
    tree, settings = search.tree, search.settings
    limits = np.minimum(settings.wave_size, search.allowance(1 + depth))
    rows, at = np.empty((2, max(0, int(limits.sum()))), np.int32)
    count = select_wave(tree, limits, settings.selection, None, rows, at)
    if count == 0:
        return False
    rows, at = rows[:count], at[:count]
    # All numbers at once, used or not: so they do not depend on how rollouts end.
    numbers = search.random(rows, (depth,))
    # Endings that were chosen again have no rollout: they are backed up as they are.
    new = np.flatnonzero(tree.kind[rows, at] == PENDING)
    for step in range(depth + 1):
        if not new.size:
            break
        search.observe(rows[new], at[new])
        # The deepest node is rated like the others, and nothing is drawn below it.
        if step < depth:
            actions = legal_actions(numbers[new, step], tree.legal[rows[new], at[new]])
            new = new[_extended(tree, rows, at, new, actions)]
    backup(tree, rows, at)
    search.done += np.bincount(rows, minlength=len(search.done))
    search.full[:] = tree.size == settings.capacity
    return True


def _extended(
    tree: Tree, rows: Array, at: Array, some: npt.NDArray[np.intp], actions: npt.NDArray[Any]
) -> npt.NDArray[np.bool_]:
    """Add a pending node below some of the rollouts; return which of them go on, `[L]`."""
    going = np.zeros(len(some), np.bool_)
    _extend(tree, rows, at, some, actions, going)
    return going


@kernel
def _extend(tree: Tree, rows: Array, at: Array, some: Array, actions: Array, going: Array) -> None:
    """Add a pending node below where rollouts are, if that is open and there is room.

    Args:
        tree: the trees.
        rows: `[n]` the tree of each rollout.
        at: `[n]` where it is; written: the new node.
        some: `[L]` which rollouts.
        actions: `[L]` what they play; -1: nothing is legal.
        going: `[L]` bool, written: whether they go on.
    """
    for i in range(len(some)):
        k = some[i]
        b, node = rows[k], at[k]
        going[i] = (
            tree.kind[b, node] == OPEN
            and actions[i] != NO_ACTION
            and tree.size[b] < tree.parent.shape[1]
        )
        if going[i]:
            at[k] = allocate(tree, b, node, actions[i])
            # As a selection counts it; `backup` takes it off again.
            tree.unobserved[b, at[k]] += 1

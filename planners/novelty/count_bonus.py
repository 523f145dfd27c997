"""Count-based exploration bonus for tree nodes, per episode.

Source: MBIE-EB of Strehl & Littman 2008, "An analysis of model-based interval estimation for
Markov decision processes", with features in the place of states and actions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.core.compiling.jit import kernel
from plangym_ext.planners.novelty.features import TOLD_APART
from plangym_ext.planners.trees.tree import Array


class CountBonus(NamedTuple):
    """Feature counts of B episodes' roots, and the nodes' bonuses."""

    counts: npt.NDArray[np.int32]  # [B, TOLD_APART] roots that had a feature; or no columns
    features: npt.NDArray[np.int32]  # [B, N, F] of each node by their last bits, -1: fewer
    # [B, N] of each node; it counts by how much that is more than the root's, so that a branch
    # is not worth more for being longer.
    bonus: npt.NDArray[np.float64]


def no_bonus(batch: int, capacity: int) -> CountBonus:
    """Return empty tables that count nothing."""
    return CountBonus(
        counts=np.zeros((batch, 0), np.int32),
        features=np.empty((batch, capacity, 0), np.int32),
        bonus=np.zeros((batch, capacity)),
    )


def new_bonus(batch: int, capacity: int) -> CountBonus:
    """Return zeroed tables for new episodes."""
    return no_bonus(batch, capacity)._replace(counts=np.zeros((batch, TOLD_APART), np.int32))


def counted(features: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return features as table indices: their last bits, -1 for none."""
    return np.where(features < 0, -1, features % TOLD_APART)


@kernel
def count_root(table: CountBonus, b: int, root: int) -> None:
    """Count the features of the root of tree b."""
    for feature in table.features[b, root]:
        if feature >= 0:
            table.counts[b, feature] += 1


@kernel
def rate(table: CountBonus, rows: Array, nodes: Array, weight: float) -> None:
    """Write the bonuses of L nodes: `weight` times the mean of 1 / sqrt(1 + count) over features.

    A mean, not the rarest of them: clocks and random numbers show rare values in all nodes alike.

    Args:
        table: read and written.
        rows: `[L]` the tree of each node.
        nodes: `[L]` its index.
        weight: the bonus of a node that shows nothing but what is new to the episode.
    """
    for i in range(len(rows)):
        b, total, count = rows[i], 0.0, 0
        for feature in table.features[b, nodes[i]]:
            if feature >= 0:
                total += 1.0 / np.sqrt(1.0 + table.counts[b, feature])
                count += 1
        table.bonus[b, nodes[i]] = weight * total / max(count, 1)

"""Novelty of pairs of coloured screen tiles (B-PROS, B-PROST), as bit-set kernels.

The pairs of a node are never written down: they are as many as the square of its coloured
tiles. Of each two colours, all offsets at once follow from bits: a row of tiles is a word.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.core.compiling.jit import allocating_part, kernel, kernel_part
from plangym_ext.errors import InvalidOption
from plangym_ext.planners.novelty.features import COLOURS, TOLD_APART
from plangym_ext.planners.trees.tree import Array

NEVER = 2**30
# All offsets between two rows of tiles must fit a word of 64 bits.
MOST_COLUMNS = 32

# Tables have room for a multiple of so many colours.
_ROOM = 8


class Pairs(NamedTuple):
    """Tables of the pairs of coloured tiles seen in B searches.

    Colours are numbered as they turn up, so that the tables, of K^2 (2 R - 1) (2 C - 1)
    entries, have room for those of the game and not for all. The offset from a tile of
    one colour to a tile of the other is at `[i, j, R - 1 + down, C - 1 + right]`.
    """

    number: npt.NDArray[np.int32]  # [B, 256] of each colour, -1 before it is seen
    space: npt.NDArray[np.int32]  # [B, K, K, 2R - 1, 2C - 1] least depth, on one screen, i <= j
    time: npt.NDArray[np.int32]  # the same from the parent's screen to the node's; or K = 0


def new_pairs(batch: int, rows: int, columns: int, in_time: bool) -> Pairs:
    """Return empty tables of pairs.

    Args:
        batch: trees.
        rows: of tiles.
        columns: of tiles, at most 32.
        in_time: whether pairs with the parent's screen are looked at, too.

    Raises:
        InvalidOption: there are more columns.
    """
    if columns > MOST_COLUMNS:
        raise InvalidOption(
            f"pairs of tiles are for screens of at most {MOST_COLUMNS} columns of tiles; got "
            f"{columns}. Make the observations smaller, or look at tiles alone."
        )
    table = np.full((batch, _ROOM, _ROOM, 2 * rows - 1, 2 * columns - 1), NEVER, np.int32)
    return Pairs(
        number=np.full((batch, COLOURS), -1, np.int32),
        space=table,
        time=table.copy() if in_time else table[:, :0, :0].copy(),
    )


def with_room(pairs: Pairs, rows: Any, features: npt.NDArray[np.int64]) -> Pairs:
    """Assign numbers to the colours of features `[L, F]` of rows `[L]`; tables may grow."""
    missing = number_colours(pairs.number, np.asarray(rows), features) - pairs.space.shape[1]
    if missing <= 0:
        return pairs
    # By several colours at once: the tables are copied each time they grow.
    more = -(-missing // _ROOM) * _ROOM
    width = ((0, 0), (0, more), (0, more), (0, 0), (0, 0))
    return pairs._replace(
        space=np.pad(pairs.space, width, constant_values=NEVER),
        time=np.pad(pairs.time, width, constant_values=NEVER)
        if pairs.time.shape[1]
        else pairs.time,
    )


@kernel
def number_colours(number: Array, rows: Array, features: Array) -> int:
    """Assign numbers to the colours that are seen for the first time; the most of any row."""
    most = 0
    for i in range(len(rows)):
        b = rows[i]
        count = 0
        for colour in range(number.shape[1]):
            count = max(count, number[b, colour] + 1)
        for feature in features[i]:
            if feature >= 0 and number[b, feature % COLOURS] < 0:
                number[b, feature % COLOURS] = count
                count += 1
        most = max(most, count)
    return most


@allocating_part
def see_pairs(pairs: Pairs, b: int, features: Array, before: Array, depth: int, slack: int) -> bool:
    """Write the pairs of a node into the tables; return whether one was new at its depth.

    Args:
        pairs: the tables, written.
        b: the tree.
        features: `[F]` of the node's tiles, tile times 256 plus colour.
        before: `[F]` of its parent's, or `[0]`.
        depth: of the node.
        slack: as `novelty.see` has it.
    """
    new = False
    here = tiles_of(pairs, b, features, False)
    mirrored = tiles_of(pairs, b, features, True)
    found = np.empty(pairs.space.shape[3], np.uint64)
    for i in range(here.shape[0]):
        # Either tile may be called the first of a pair on one screen: one order is enough.
        for j in range(i, here.shape[0]):
            if offsets(mirrored[i], here[j], found):
                new |= see_offsets(pairs.space[b, i, j], found, depth, slack)
    if pairs.time.shape[1] > 0 and len(before) > 0:
        mirrored = tiles_of(pairs, b, before, True)
        for i in range(here.shape[0]):
            for j in range(here.shape[0]):
                if offsets(mirrored[i], here[j], found):
                    new |= see_offsets(pairs.time[b, i, j], found, depth, slack)
    return new


@allocating_part
def tiles_of(pairs: Pairs, b: int, features: Array, mirrored: bool) -> Array:
    """Return `[K, R + 1]` uint64: the tiles of each colour, one bit each, and their count.

    Args:
        pairs: the tables.
        b: the tree.
        features: `[F]` tile times 256 plus colour.
        mirrored: as seen from the opposite corner.
    """
    # R and C, of 2 R - 1 and 2 C - 1 offsets.
    rows, columns = (pairs.space.shape[3] + 1) // 2, (pairs.space.shape[4] + 1) // 2
    tiles = np.zeros((pairs.space.shape[1], rows + 1), np.uint64)
    for feature in features:
        if feature >= 0:
            at = feature // COLOURS
            if mirrored:
                at = rows * columns - 1 - at
            colour = pairs.number[b, feature % COLOURS]
            tiles[colour, at // columns] |= np.uint64(1) << np.uint64(at % columns)
            tiles[colour, rows] += np.uint64(1)
    return tiles


@kernel_part
def offsets(mirrored: Array, tiles: Array, found: Array) -> bool:
    """Write the offsets from all tiles of one colour to all of another; return if there are any.

    Args:
        mirrored: `[R + 1]` uint64, of the one, mirrored, and their count.
        tiles: `[R + 1]` uint64, of the other.
        found: `[2 R - 1]` uint64, written: a bit at row R - 1 + down, column C - 1 + right.
    """
    rows = len(tiles) - 1
    if mirrored[rows] == 0 or tiles[rows] == 0:
        return False
    for row in range(len(found)):
        found[row] = np.uint64(0)
    # Offsets are sums of the one's mirrored places and the other's, so either may be gone
    # through tile by tile: that with fewer.
    few, many = (mirrored, tiles) if mirrored[rows] < tiles[rows] else (tiles, mirrored)
    for row in range(rows):
        left, column = few[row], np.uint64(0)
        while left != 0:
            if left & np.uint64(1):
                for other in range(rows):
                    found[row + other] |= many[other] << column
            left >>= np.uint64(1)
            column += np.uint64(1)
    return True


@kernel_part
def see_offsets(table: Array, found: Array, depth: int, slack: int) -> bool:
    """Write offsets `[2 R - 1]` of two colours into their table; return whether one was new."""
    new = False
    for row in range(len(found)):
        word = found[row]
        if word != 0:
            for column in range(table.shape[1]):
                if (word >> np.uint64(column)) & np.uint64(1):
                    new |= depth < table[row, column] + slack
                    table[row, column] = min(table[row, column], depth)
    return new


# Count-based exploration bonus for tree nodes, per episode --------------------
# Source: MBIE-EB of Strehl & Littman 2008, "An analysis of model-based interval estimation for
# Markov decision processes", with features in the place of states and actions.


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

"""Hash table of archive entries in compiled code: lookup and update of cells."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.core.compiling.jit import kernel, kernel_inline

FREE = -1

# FNV-1a, 64 bits (Fowler, Noll & Vo).
_BASIS, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
_HALF = np.uint64(32)
# Of a cell, places that are taken by others: on average a fraction of one, as a quarter are taken.
_MOST_LOOKED = 64


class Entries(NamedTuple):
    """Table of up to C cells; entries from `known[0]` on are unused.

    An entry is the best trajectory to a cell so far: of greatest score, and of these the shortest.
    """

    key: npt.NDArray[np.uint8]  # [C, W] the cell's numbers as bytes
    state: npt.NDArray[np.uint8]  # [C, S] sealed, at the end of the trajectory
    score: npt.NDArray[np.float64]  # [C] sum of rewards on the trajectory
    steps: npt.NDArray[np.int64]  # [C] length of the trajectory, in control steps
    seen: npt.NDArray[np.int64]  # [C] steps that ended in the cell since the entry is this one
    chosen: npt.NDArray[np.int64]  # [C] how often rows began there since then
    ended: npt.NDArray[np.bool_]  # [C] the episode is over there
    segment: npt.NDArray[np.int64]  # [C] on which the trajectory ends; see `archive.LATEST`
    taken: npt.NDArray[np.int64]  # [C] actions of that segment on the trajectory
    place: npt.NDArray[np.int32]  # [M] entry by hash of its key, FREE; M a power of two
    known: npt.NDArray[np.int64]  # [1] how many


class Arrived(NamedTuple):
    """The L rows after a step: cell keys, states, scores, segments."""

    key: npt.NDArray[np.uint8]  # [L, W]
    state: npt.NDArray[np.uint8]  # [L, S]
    score: npt.NDArray[np.float64]  # [L]
    steps: npt.NDArray[np.int64]  # [L]
    ended: npt.NDArray[np.bool_]  # [L]
    segment: npt.NDArray[np.int64]  # [L]
    taken: npt.NDArray[np.int64]  # [L]


#: Of rows whose cells are given apart.
NO_KEYS = np.zeros((0, 0), np.uint8)


@kernel_inline
def home_of(entries: Entries, key: Any) -> Any:
    """Return the preferred position of a key `[W]` in `place`."""
    found = _BASIS
    for byte in key:
        found = (found ^ np.uint64(byte)) * _PRIME
    # The low bits of the product depend on the low bits of bytes alone.
    found ^= found >> _HALF
    return np.int64(found & np.uint64(len(entries.place) - 1))


@kernel_inline
def place_of(entries: Entries, key: Any) -> Any:
    """Return the position in `place` that holds a key `[W]`, or that is free for it."""
    at, last = home_of(entries, key), len(entries.place) - 1
    while entries.place[at] != FREE:
        known = entries.key[entries.place[at]]
        same = True
        for i in range(len(key)):
            if known[i] != key[i]:
                same = False
                break
        if same:
            break
        at = (at + 1) & last
    return at


@kernel
def visit(entries: Entries, arrived: Arrived, cell: Any, improved: Any) -> None:
    """Count the visits of cells, and keep trajectories that are new or better.

    Rows are taken in order: of two in one cell, the later one has to be better than the former.
    When an entry is replaced its counts begin anew, since more may be reached from there now.

    Args:
        entries: the table, written; it has room for L more cells.
        arrived: L rows.
        cell: `[L]` int64, written: the entry of each row's cell.
        improved: `[L]` bool, written: whether the row became the entry.
    """
    for row in range(len(arrived.score)):
        at = place_of(entries, arrived.key[row])
        i = np.int64(entries.place[at])
        new = i == FREE
        if new:
            i = entries.known[0]
            entries.known[0] += 1
            entries.place[at] = i
            copy_row(arrived.key, row, entries.key, i)
        score, steps = arrived.score[row], arrived.steps[row]
        better = (
            new
            or score > entries.score[i]
            or (score == entries.score[i] and steps < entries.steps[i])
        )
        if better:
            copy_row(arrived.state, row, entries.state, i)
            entries.score[i], entries.steps[i] = score, steps
            entries.ended[i] = arrived.ended[row]
            entries.segment[i], entries.taken[i] = arrived.segment[row], arrived.taken[row]
            entries.seen[i] = entries.chosen[i] = 0
        entries.seen[i] += 1
        cell[row], improved[row] = i, better


@kernel_inline
def copy_row(source: Any, row: Any, target: Any, i: Any) -> None:
    """Copy `source[row]` to `target[i]`, both `[*, W]`."""
    for w in range(source.shape[1]):
        target[i, w] = source[row, w]


@kernel
def put_in_places(entries: Entries) -> bool:
    """Write `place`, which is FREE everywhere, for the cells that are known.

    Returns:
        Whether they are all different, and not chosen so that they collide: of those that are,
        looking for places would take time without end.
    """
    last, looked = len(entries.place) - 1, 0
    for i in range(entries.known[0]):
        key = entries.key[i]
        at = place_of(entries, key)
        looked += (at - home_of(entries, key)) & last
        if entries.place[at] != FREE or looked > _MOST_LOOKED * (i + 1) + last:
            return False
        entries.place[at] = i
    return True

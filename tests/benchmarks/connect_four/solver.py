"""The true value of a Connect Four position, by search to the end of the game.

A board is two numbers: the stones of the player to move, and all stones. Column c has the bits
7c (its lowest cell) to 7c + 5; bit 7c + 6 stays empty, so that no line runs over the edge.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import int64, njit

COLUMNS, ROWS = 7, 6
#: Places of the table of positions that were searched: a prime, as keys are taken modulo it.
_PLACES = 8_388_593

Table = tuple[npt.NDArray[np.int64], npt.NDArray[np.int8]]


def new_table() -> Table:
    """Return an empty table of positions, for `move_values`."""
    return np.full(_PLACES, -1, np.int64), np.zeros(_PLACES, np.int8)


@njit(int64(int64))
def has_line(stones: int) -> int:
    """Return whether four stones are in a line."""
    for shift in (1, 7, 6, 8):
        pairs = stones & (stones >> shift)
        if pairs & (pairs >> (2 * shift)):
            return 1
    return 0


@njit(int64(int64, int64))
def _threats(stones: int, every: int) -> int:
    """Return the empty cells where one more stone makes a line."""
    # Upwards only: the cells below a stone are never empty.
    found = (stones << 1) & (stones << 2) & (stones << 3)
    for shift in (7, 6, 8):
        ahead = (stones << shift) & (stones << (2 * shift))
        found |= ahead & (stones << (3 * shift))
        found |= ahead & (stones >> shift)
        before = (stones >> shift) & (stones >> (2 * shift))
        found |= before & (stones << shift)
        found |= before & (stones >> (3 * shift))
    cells = 0
    for column in range(7):
        cells |= 63 << (7 * column)
    return found & cells & ~every


@njit(int64(int64))
def playable_cells(every: int) -> int:
    """Return the lowest empty cell of each column."""
    found = 0
    for column in range(7):
        cell = (every + (1 << (7 * column))) & (63 << (7 * column))
        found |= cell
    return found


@njit(int64(int64))
def count_of(bits: int) -> int:
    found = 0
    while bits:
        bits &= bits - 1
        found += 1
    return found


# A position's table entry is a lower bound on its value (1: >= 0, 2: >= 1), an upper bound
# (3: <= 0, 4: <= -1), or nothing of use: bounds of another window are searched again.
@njit("int64(int64, int64, int64, int64, int64[:], int8[:])")
def _value(
    stones: int,
    every: int,
    low: int,
    high: int,
    keys: npt.NDArray[np.int64],
    bounds: npt.NDArray[np.int8],
) -> int:
    """Return the value of a position for its mover, if it lies in (low, high), else a bound."""
    playable = playable_cells(every)
    if playable == 0:
        return 0
    if _threats(stones, every) & playable:
        return 1
    theirs = _threats(stones ^ every, every)
    forced = theirs & playable
    if forced:
        if forced & (forced - 1):
            return -1
        playable = forced
    # A stone below one of their threats hands them the line.
    playable &= ~(theirs >> 1)
    if playable == 0:
        return -1
    if count_of(every) >= 40:
        # No line by this move, and none by the answer.
        return 0
    key = stones + every
    place = key % keys.size
    if keys[place] == key:
        bound = bounds[place]
        if bound == 2 or (bound == 1 and high <= 0):
            return bound - 1
        if bound == 4 or (bound == 3 and low >= 0):
            return 3 - bound
        if bound == 1:
            low = max(low, 0)
        elif bound == 3:
            high = min(high, 0)
    # Most threats first, then from the middle outwards.
    moves = np.zeros(7, np.int64)
    marks = np.zeros(7, np.int64)
    size = 0
    for column in (3, 2, 4, 1, 5, 0, 6):
        move = playable & (63 << (7 * column))
        if move:
            mark = count_of(_threats(stones | move, every | move))
            at = size
            while at > 0 and marks[at - 1] < mark:
                moves[at], marks[at] = moves[at - 1], marks[at - 1]
                at -= 1
            moves[at], marks[at] = move, mark
            size += 1
    best = -1
    first = low
    for k in range(size):
        found = -_value(stones ^ every, every | moves[k], -high, -low, keys, bounds)
        best = max(best, found)
        low = max(low, best)
        if best >= high:
            break
    keys[place] = key
    # `first` is the window's lower end as it was: what does not exceed it is an upper bound.
    if best > first:
        bounds[place] = best + 1
    else:
        bounds[place] = 3 - best
    return best


@njit
def _move_values(
    stones: int, every: int, keys: npt.NDArray[np.int64], bounds: npt.NDArray[np.int8]
) -> npt.NDArray[np.int64]:
    values = np.full(7, -2)
    playable = playable_cells(every)
    for column in range(7):
        move = playable & (63 << (7 * column))
        if move and has_line(stones | move):
            values[column] = 1
        elif move:
            values[column] = -_value(stones ^ every, every | move, -1, 1, keys, bounds)
    return values


def bits_of(board: npt.NDArray[np.uint8]) -> tuple[int, int]:
    """Return the two numbers of a board `[2, 6, 7]`: the mover's stones, then the other's."""
    places = 1 << (7 * np.arange(COLUMNS)[None, :] + np.arange(ROWS)[::-1, None])
    mine, theirs = (int((places * side).sum()) for side in board.astype(np.int64))
    return mine, mine | theirs


def move_values(stones: int, every: int, table: Table) -> npt.NDArray[np.int64]:
    """Return what each move is worth to its player with perfect play, `[7]`.

    Args:
        stones: of the player to move; there is no line yet.
        every: stones of both.
        table: of positions that were searched, which is added to.

    Returns:
        1 for a win, 0 for a draw, -1 for a loss; -2 where the column is full.
    """
    found: npt.NDArray[np.int64] = _move_values(stones, every, *table)
    return found

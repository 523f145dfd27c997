"""Cell codes of Sokoban boards, their text symbols, and the check that a board is legal."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: Cell codes; also the order of the observation's planes (gym-sokoban's order).
#: Free cells (1, 2), cells with a target (2, 3) and with a box (3, 4) are ranges.
WALL, FLOOR, TARGET, BOX_ON_TARGET, BOX, PLAYER, PLAYER_ON_TARGET = range(7)
NUM_CODES = 7

#: `SYMBOLS[code]` is the usual text symbol of the code.
SYMBOLS = "# .*$@+"

#: Rows and columns are stored as one byte each.
MAX_SIDE = 255

_CODES = bytes(range(NUM_CODES))


def format_board(board: NDArray[np.uint8]) -> str:
    """Return `board` ([H, W] uint8 codes) as text: H lines of W symbols, no newline at the end."""
    return "\n".join("".join(SYMBOLS[code] for code in row) for row in board.tolist())


def find_fault(cells: bytes, width: int) -> tuple[int, str] | None:
    """Return the first rule that a board breaks, or None for a legal board.

    The ring of walls is what lets `push` read two cells ahead without a check of
    bounds, so it is demanded of every board, wherever it comes from.

    Args:
        cells: `[H * W]` codes, row by row, H and W >= 1.
        width: W.

    Returns:
        Row of the fault, -1 where it is the whole board's, and its description.
    """
    unknown = cells.translate(None, _CODES)
    if unknown:
        row = cells.index(unknown[0]) // width
        return row, f"cell codes must be 0..{NUM_CODES - 1}; got {unknown[0]}"
    if (ring := _first_open_row(cells, width)) is not None:
        return ring, "the outermost cells must all be walls ('#'); pad the level with walls"
    players = cells.count(PLAYER) + cells.count(PLAYER_ON_TARGET)
    if players != 1:
        return -1, f"expected exactly one player ('@' or '+'); got {players}"
    done, boxes = cells.count(BOX_ON_TARGET), cells.count(BOX)
    targets = cells.count(TARGET) + cells.count(PLAYER_ON_TARGET)
    if boxes != targets or boxes + done == 0:
        return -1, (
            "expected as many boxes ('$', '*') as targets ('.', '+', '*'), at least one; "
            f"got {boxes + done} boxes and {targets + done} targets"
        )
    return None


def _first_open_row(cells: bytes, width: int) -> int | None:
    """Return the first row with a border cell that is no wall."""
    ring = cells[:width] + cells[-width:] + cells[::width] + cells[width - 1 :: width]
    if ring.count(WALL) == len(ring):
        return None
    height = len(cells) // width
    for row in range(height):
        line = cells[row * width : (row + 1) * width]
        outer = line if row in (0, height - 1) else line[:1] + line[-1:]
        if any(outer):
            return row
    raise AssertionError("the ring has an open cell, but no row has")

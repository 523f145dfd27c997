"""Sokoban boards: cell codes and symbols, legality check, move rule, mirrored boards."""

from __future__ import annotations

import functools
from collections.abc import Mapping, MutableSequence
from typing import Any

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


#: Actions, in gym-sokoban's order.
UP, DOWN, LEFT, RIGHT = range(4)
NUM_ACTIONS = 4


def push(cells: MutableSequence[int], width: int, player: int, action: int) -> tuple[int, int]:
    """Move the player one cell, pushing the box ahead if there is room beyond it.

    An impossible move changes nothing. The board must be ringed by walls and the
    arguments valid: nothing is checked here.

    Args:
        cells: `[H * W]` codes, written in place: bytearray, or uint8 array under numba.
        width: W.
        player: index of the player in `cells`.
        action: UP, DOWN, LEFT or RIGHT.

    Returns:
        Index of the player afterwards, and the change in boxes on targets (-1, 0, 1).

    Source: rules after gym-sokoban (Schrader 2018).
    """
    ahead = player + (-width, width, -1, 1)[action]
    found = cells[ahead]
    if found == WALL:
        return player, 0
    gained = 0
    # Codes with a box, and below codes with a target, are neighbours.
    if BOX_ON_TARGET <= found <= BOX:
        # A box is never on the ring, so the cell beyond it exists.
        beyond = ahead + ahead - player
        if cells[beyond] == FLOOR:
            cells[beyond] = BOX
        elif cells[beyond] == TARGET:
            cells[beyond] = BOX_ON_TARGET
            gained = 1
        else:
            return player, 0
        if found == BOX_ON_TARGET:
            gained -= 1
    cells[player] = TARGET if cells[player] == PLAYER_ON_TARGET else FLOOR
    over_target = TARGET <= found <= BOX_ON_TARGET
    cells[ahead] = PLAYER_ON_TARGET if over_target else PLAYER
    return ahead, gained


#: By mirror, what each action becomes; the last swaps rows and columns.
_MIRRORS = (
    {UP: DOWN, DOWN: UP, LEFT: LEFT, RIGHT: RIGHT},
    {UP: UP, DOWN: DOWN, LEFT: RIGHT, RIGHT: LEFT},
    {UP: LEFT, DOWN: RIGHT, LEFT: UP, RIGHT: DOWN},
)


def mirrored(
    samples: Mapping[str, NDArray[Any]], draws: NDArray[np.floating[Any]]
) -> dict[str, NDArray[Any]]:
    """Replace every row of a batch by one of its images: 8 of square boards, 4 of others.

    Args:
        samples: what a trainer learns from: "obs" `[N, H, W, C]`; other arrays `[N, 4]` are about
            the actions, and the rest says the same of all images.
        draws: `[N]` in [0, 1), which image each row becomes.

    Returns:
        Fresh arrays by the same names.
    """
    height, width = samples["obs"].shape[1:3]
    mirrors = _MIRRORS if height == width else _MIRRORS[:2]
    # A bit for each mirror: the images are all combinations of them.
    image = (np.asarray(draws) * 2 ** len(mirrors)).astype(np.int64)
    found = {name: np.array(rows) for name, rows in samples.items()}
    for number, becomes in enumerate(mirrors):
        rows = np.flatnonzero(image >> number & 1)
        order = [becomes[action] for action in range(NUM_ACTIONS)]
        for name, given in found.items():
            if name == "obs":
                given[rows] = _reflected(given[rows], number)
            elif given.ndim == 2 and given.shape[1] == NUM_ACTIONS:
                # Each of these mirrors undoes itself, and so does what it makes of actions.
                given[rows] = given[rows][:, order]
    return found


def _reflected(boards: NDArray[Any], mirror: int) -> NDArray[Any]:
    if mirror == 2:
        return boards.transpose(0, 2, 1, 3)
    return np.flip(boards, axis=1 + mirror)


# Sokoban observations and rendering -------------------------------------------


#: Pixels along one side of a drawn tile.
TILE = 16

#: `[7, 3]` uint8: one colour per cell code, distinct without colour vision too.
COLOURS = np.array(
    [
        (44, 48, 60),  # wall
        (226, 220, 205),  # floor
        (235, 120, 105),  # target
        (88, 150, 60),  # box on target
        (160, 105, 50),  # box
        (40, 90, 190),  # player
        (130, 80, 200),  # player on target
    ],
    np.uint8,
)

_PLANES = np.eye(NUM_CODES, dtype=np.uint8)


def one_hot_planes(board: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return `[H, W, 7]` uint8 of 0 and 1, fresh: plane c is 1 where `board` is code c."""
    return _PLANES.take(board, axis=0)


def coloured_cells(board: NDArray[np.uint8], pixels: int) -> NDArray[np.uint8]:
    """Return `[H * pixels, W * pixels, 3]` uint8, fresh: each cell a square of its colour."""
    small = COLOURS.take(board, axis=0)
    return small if pixels == 1 else small.repeat(pixels, axis=0).repeat(pixels, axis=1)


def draw(board: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a `[16 * H, 16 * W, 3]` uint8 picture of `board`, fresh."""
    height, width = board.shape
    tiles = _tiles().take(board, axis=0)  # [H, W, 16, 16, 3]
    return tiles.swapaxes(1, 2).reshape(height * TILE, width * TILE, 3)


@functools.cache
def _tiles() -> NDArray[np.uint8]:
    """Return `[7, 16, 16, 3]` uint8: one drawn tile per cell code."""
    tiles = np.empty((NUM_CODES, TILE, TILE, 3), np.uint8)
    tiles[:] = COLOURS[1]
    rows, cols = np.mgrid[:TILE, :TILE]
    # Twice the distance from the tile's middle, in whole numbers.
    down, right = 2 * rows - TILE + 1, 2 * cols - TILE + 1

    # Bricks in two courses, the joints of one over the middle of the other.
    tiles[WALL] = COLOURS[WALL]
    joint = (rows % 8 == 7) | ((cols + 8 * (rows // 8)) % 16 == 7)
    tiles[WALL][joint] = (92, 98, 114)

    tiles[TARGET][np.abs(down) + np.abs(right) <= 9] = COLOURS[TARGET]

    crate = np.maximum(np.abs(down), np.abs(right)) <= 13
    frame = crate & (np.maximum(np.abs(down), np.abs(right)) >= 11)
    cross = crate & (np.abs(np.abs(down) - np.abs(right)) <= 1)
    for code in (BOX, BOX_ON_TARGET):
        tiles[code][crate] = COLOURS[code]
        tiles[code][frame | cross] = COLOURS[code] // 2

    head = down**2 + right**2 <= 130
    eyes = (np.abs(down + 3) <= 2) & (np.abs(np.abs(right) - 4) <= 2)
    for code in (PLAYER, PLAYER_ON_TARGET):
        tiles[code][head] = COLOURS[PLAYER]
        tiles[code][eyes] = (255, 255, 255)
    # The target must show around a player who stands on it.
    tiles[PLAYER_ON_TARGET][~head] = COLOURS[TARGET]
    return tiles

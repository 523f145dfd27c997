"""Sokoban observations and rendering: one-hot planes, coloured cells, drawn tiles."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from plangym_ext.envs.sokoban.cells import (
    BOX,
    BOX_ON_TARGET,
    NUM_CODES,
    PLAYER,
    PLAYER_ON_TARGET,
    TARGET,
    WALL,
)

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

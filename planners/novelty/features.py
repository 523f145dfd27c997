"""Feature functions of observations for novelty search: bytes, tiles, numbers.

A feature is a whole number; an observation has F of them, -1 standing for none. Dict and Tuple
observations have the features of all their parts.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import content, leaves, num_rows, rows_of
from plangym_ext.core.compiling.jit import kernel
from plangym_ext.errors import InvalidOption
from plangym_ext.planners.trees.tree import Array

# Width and height of the tiles of a screen, in pixels: 16 by 14 of them on Atari.
_TILE_HEIGHT, _TILE_WIDTH = 15, 10
#: Features are told apart by their last 20 bits: a power of two, so that numbers are brought
#: into it by them.
TOLD_APART = 2**20
#: A feature of a tile is its number, row by row, times this, plus its colour.
COLOURS = 256


def whole_features(obs: Any) -> npt.NDArray[np.int64]:
    """Return the whole observation as one feature, `[L, 1]`, fresh.

    Then only observations that were seen before, at that depth or above, are old: searches leave
    out what comes to the same, and are otherwise not pruned. Observations are told apart by the
    last bits of a CRC-32 of their bytes.
    """
    found = [zlib.crc32(content(rows_of(obs, i))) for i in range(num_rows(obs))]
    return np.array(found, np.int64).reshape(-1, 1)


def byte_features(obs: Any) -> npt.NDArray[np.int64]:
    """Return (byte index, value) features of uint8 observations `[L, F]`: `[L, F]`, fresh.

    For the 128 bytes of Atari's memory these are the features of IW(1).

    Source: Lipovetzky et al. 2015, "Classical planning with simulators: results on the
    Atari video games".
    """
    return _of_parts(_bytes_of, obs)


def _bytes_of(part: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    flat = part.reshape(len(part), -1)
    return _in_places(flat.astype(np.int64), 256)


def tile_features(obs: Any) -> npt.NDArray[np.int64]:
    """Return (tile, colour) features of screens `[L, H, W(, C)]` uint8: `[L, F]`, fresh.

    Tiles are 15 pixels high and 10 wide. Colours are the grey levels, or of RGB the 256
    of 3, 3 and 2 bits. A tile's features are as many as the most colours in any.

    Source: the "basic" features of Bellemare et al. 2013, "The Arcade Learning
    Environment", section 3.2, without their subtraction of the background.

    Raises:
        InvalidOption: these are no such screens.
    """
    rows, columns = tile_grid(obs)
    screen = np.ascontiguousarray(obs)
    # Of grey levels with and without an axis of their own.
    screen = screen.reshape(*screen.shape[:3], -1)
    seen = np.zeros((len(screen), rows, columns, COLOURS), np.bool_)
    mark_colours(screen, seen)
    flat = seen.reshape(len(screen), -1)
    # As wide as the screen with most features needs; -1 fills up the others.
    most = int(flat.sum(axis=1).max())
    found = np.full((len(screen), most), -1, np.int64)
    for i, row in enumerate(flat):
        ids = np.flatnonzero(row)
        found[i, : len(ids)] = ids
    return found


@kernel
def mark_colours(screen: Array, seen: Array) -> None:
    """Write which colours occur in each tile.

    Args:
        screen: `[L, H, W, C]` uint8, of one grey level or three of RGB.
        seen: `[L, R, S, 256]` bool, of R by S tiles. What is left over at the right and
            below is no whole tile.
    """
    is_grey = screen.shape[3] == 1
    for i in range(seen.shape[0]):
        for y in range(seen.shape[1] * _TILE_HEIGHT):
            tiles, line = seen[i, y // _TILE_HEIGHT], screen[i, y]
            for column in range(seen.shape[2]):
                for x in range(column * _TILE_WIDTH, (column + 1) * _TILE_WIDTH):
                    colour = line[x, 0]
                    if not is_grey:
                        colour = colour & 0xE0 | line[x, 1] >> 5 << 2 | line[x, 2] >> 6
                    tiles[column, colour] = True


def tile_grid(obs: Any) -> tuple[int, int]:
    """Return the rows and columns of tiles of screens `[L, H, W(, C)]` uint8.

    Raises:
        InvalidOption: these are no screens, or too small for one tile.
    """
    if isinstance(obs, dict | tuple):
        raise InvalidOption(
            f"features of tiles need screens; got observations nested in a "
            f"{type(obs).__name__}. Choose other features, or pick the screen with a wrapper."
        )
    screen = np.asarray(obs)
    shape = screen.shape[1:]
    if (
        screen.dtype != np.uint8
        or len(shape) not in (2, 3)
        or shape[2:] not in ((), (1,), (3,))
        or min(shape[0] // _TILE_HEIGHT, shape[1] // _TILE_WIDTH) < 1
    ):
        raise InvalidOption(
            f"features of tiles are of screens [L, H, W(, 1 or 3)] uint8 of at least "
            f"{_TILE_HEIGHT} by {_TILE_WIDTH} pixels; got {list(screen.shape)} {screen.dtype}. "
            "Choose other features."
        )
    return shape[0] // _TILE_HEIGHT, shape[1] // _TILE_WIDTH


@dataclass(frozen=True)
class TilePairs:
    """Tile features of which novelty searches also test all pairs.

    A pair is a colour in one tile and a colour in another (or in the same), whichever
    tiles they are: what counts is how many rows and columns lie between them. It tells
    that things have come to lie otherwise to each other, wherever that is.

    The pairs are not listed: searches form them from the features of a node's tiles and
    its parent's (`planners/novelty/pairs.py`), which takes some 0.02 to 0.05 ms per node on Atari,
    and with `in_time` 0.05 to 0.13 ms. A search keeps a table of 4 bytes by the offsets
    (837 on Atari) by the square of the colours that occur, in eights: 0.9 MB for up to 16,
    219 MB for all 256; a second one for `in_time`; both for each episode planned for.

    Attributes:
        in_time: look also at the pairs of a colour on the screen before (the parent's;
            the root has none) and a colour on this one.

    Source: B-PROS and, with `in_time`, B-PROST of Liang et al. 2016, "State of the art
    control of Atari games using shallow reinforcement learning", which Bandres et al. 2018
    search with; their code also subtracts the background, which is not done here.
    """

    in_time: bool = False

    def __call__(self, obs: Any) -> npt.NDArray[np.int64]:
        """Return the features of tiles, `[L, F]`; see `tile_features`."""
        return tile_features(obs)


def number_features(obs: Any, resolution: float = 0.25) -> npt.NDArray[np.int64]:
    """Return features of numbers in intervals of width `resolution`: `[L, F]`, fresh."""
    return _of_parts(functools.partial(_numbers_of, resolution=resolution), obs)


def _numbers_of(part: npt.NDArray[Any], resolution: float = 0.25) -> npt.NDArray[np.int64]:
    flat = part.astype(np.float64).reshape(len(part), -1)
    bins = np.clip(np.floor(flat / resolution), -(2**15), 2**15 - 1).astype(np.int64) + 2**15
    return _in_places(bins, 2**16)


def _in_places(values: npt.NDArray[np.int64], most: int) -> npt.NDArray[np.int64]:
    """Return features of `[L, F]` values from 0 to most - 1: a place and what is there."""
    places = values.shape[1]
    found: npt.NDArray[np.int64] = np.arange(places) * most + values
    # Of more than are told apart, those some places further would be the same as these.
    return found if places * most <= TOLD_APART else _scattered(found, 0)


def default_features(obs: Any) -> npt.NDArray[np.int64]:
    """Return `[L, F]`, fresh: bytes of byte vectors, tiles of screens, intervals of numbers."""
    return _of_parts(_default_of, obs)


def _default_of(seen: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    if seen.dtype != np.uint8:
        return _numbers_of(seen)
    is_screen = seen.ndim >= 3 and seen.shape[1] >= _TILE_HEIGHT and seen.shape[2] >= _TILE_WIDTH
    return tile_features(seen) if is_screen else _bytes_of(seen)


def _of_parts(
    features: Callable[[npt.NDArray[Any]], npt.NDArray[np.int64]], obs: Any
) -> npt.NDArray[np.int64]:
    """Return the features `[L, F]` of all parts of nested observations, each part's its own.

    Texts and objects are one feature each, whatever `features` is: that of the whole.
    """
    found = []
    for k, part in enumerate(map(np.asarray, leaves(obs))):
        own = features(part) if part.dtype.kind in "biuf" else whole_features(part)
        found.append(own if k == 0 else np.where(own < 0, -1, _scattered(own, k)))
    return found[0] if len(found) == 1 else np.concatenate(found, axis=1)


def _scattered(features: npt.NDArray[np.int64], part: int) -> npt.NDArray[np.int64]:
    """Return other whole numbers >= 0 for other parts: the same value may occur in several.

    Source: the multiplier of Steele et al. 2014, "Fast splittable pseudorandom number
    generators". Its high bits depend on all bits of what is multiplied.
    """
    mixed = (features.astype(np.uint64) + np.uint64(part << 40)) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed >> np.uint64(24)).astype(np.int64)


#: Features by name.
FEATURES: dict[str, Callable[[Any], npt.NDArray[np.int64]]] = {
    "whole": whole_features,
    "bytes": byte_features,
    "tiles": tile_features,
    "pairs": TilePairs(),
    "pairs-in-time": TilePairs(in_time=True),
    "numbers": number_features,
}

"""The game 2048 as a gymnasium env: sliding tiles with random new ones."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from plangym_ext.errors import InvalidOption
from plangym_ext.native.compiled import compiled
from plangym_ext.native.kernel import pcg64
from plangym_ext.native.kernel.row_kernel import Kernel
from plangym_ext.native.kernel.rules_env import RulesEnv

_INFO = np.dtype([("action_mask", "i1", (4,))])


class Slide2048(NamedTuple):
    """The env's arguments."""

    size: int
    four: float


class Slide2048Env(RulesEnv):
    """2048 on a board of `size` x `size` cells.

    Actions 0, 1, 2, 3 slide all tiles up, right, down, left. Two tiles of one number that meet
    become one of their sum, which is the reward; a tile that came of two does not meet a third
    in the same step. Then a new tile, 2 or, with probability `four`, 4, appears on an empty
    cell, each as likely as the others. A slide that moves nothing changes nothing and pays 0.
    The game is over when no slide moves anything.

    The info `action_mask` says which slides move something.

    The observation is `[size, size]` uint8, fresh: 0 for an empty cell, k for a tile of 2**k.

    Args:
        size: cells of a side, 2 to 6.
        four: probability that a new tile is a 4, in [0, 1].
        render_mode: None or "ansi".

    Raises:
        ValueError: an argument is out of range.

    Source: G. Cirulli 2014, "2048"; on two cells by two the best expected score can be found by
    trying everything.
    """

    def __init__(self, size: int = 4, four: float = 0.1, *, render_mode: str | None = None) -> None:
        if not 2 <= size <= 6:
            raise InvalidOption(f"Slide2048Env: size must be in [2, 6]; got {size}.")
        if not 0.0 <= four <= 1.0:
            raise InvalidOption(f"Slide2048Env: four must be a probability, in [0, 1]; got {four}.")
        self.size, self.four = size, float(four)
        state = np.dtype([("cells", "u1", (size * size,)), ("rng", pcg64.RNG)])
        params = Slide2048(int(size), float(four))
        kernel = Kernel(state, step, reset, observe, params, _INFO, check, describe)
        # No tile is larger than 2**(size**2 + 1): so many cells hold it and those it came of.
        obs = spaces.Box(0, size * size + 1, (size, size), np.uint8)
        super().__init__(kernel, obs, spaces.Discrete(4), render_mode=render_mode)

    def text(self) -> str:
        """Return the tiles in rows, `.` for empty cells."""
        tiles = ["." if cell == 0 else str(2 ** int(cell)) for cell in self.state["cells"]]
        rows = (tiles[at : at + self.size] for at in range(0, len(tiles), self.size))
        return "\n".join(" ".join(row) for row in rows)


@compiled
def _place(direction: int, k: int, i: int, size: int) -> int:
    """Return cell i of row or column k, counted in the direction of the slide."""
    if direction == 1 or direction == 2:
        i = size - 1 - i
    return i * size + k if direction % 2 == 0 else k * size + i


@compiled
def slide(cells: Any, size: int, direction: int, move: bool) -> tuple[bool, float]:
    """Slide the tiles of `[size * size]` cells; return whether any moves, and what it pays.

    Without `move` the cells are left as they are.
    """
    moves, reward = False, 0.0
    for k in range(size):
        # `last` is the tile on the cell before `put`, while the next one may still meet it.
        put, last = 0, 0
        for i in range(size):
            at = _place(direction, k, i, size)
            tile = int(cells[at])
            if tile == 0:
                continue
            if tile == last:
                to, made = _place(direction, k, put - 1, size), tile + 1
                reward, last = reward + 2.0**made, 0
            else:
                to, made, last = _place(direction, k, put, size), tile, tile
                put += 1
            moves = moves or to != at
            if move:
                cells[at] = 0
                cells[to] = made
    return moves, reward


@compiled
def add_tile(state: Any, params: Any) -> None:
    """Put a 2 or a 4 on one of the empty cells; there is one."""
    cells, empty = state["cells"], 0
    for cell in cells:
        empty += cell == 0
    # The place is drawn before the kind: episodes of a seed depend on the order.
    place = pcg64.integers(state["rng"], empty)
    tile = 2 if pcg64.random(state["rng"]) < params.four else 1
    for at in range(cells.size):
        if cells[at] == 0:
            if place == 0:
                cells[at] = tile
                break
            place -= 1


def step(state: Any, params: Any, action: int, info: Any) -> tuple[float, bool, bool]:
    """Slide all tiles; a slide that moves nothing draws nothing."""
    moves, reward = slide(state["cells"], params.size, action, True)
    if moves:
        add_tile(state, params)
    # After the new tile, which may fill the last cell.
    describe(state, params, info)
    over = True
    for direction in range(4):
        over = over and info["action_mask"][direction] == 0
    return reward, over, False


def reset(state: Any, params: Any) -> None:
    """Begin with two tiles."""
    state["cells"][:] = 0
    add_tile(state, params)
    add_tile(state, params)


@compiled
def describe(state: Any, params: Any, info: Any) -> None:
    """Write which slides move something."""
    for direction in range(4):
        info["action_mask"][direction] = slide(state["cells"], params.size, direction, False)[0]


def observe(state: Any, params: Any, obs: Any) -> None:
    """Write the cells."""
    obs.reshape(-1)[:] = state["cells"]


def check(state: Any, params: Any) -> bool:
    """Return whether there are such tiles and such a generator."""
    for cell in state["cells"]:
        if cell > params.size * params.size + 1:
            return False
    return pcg64.could_be_rng(state["rng"])

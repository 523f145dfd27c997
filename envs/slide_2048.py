"""The game 2048 as a gymnasium env: sliding tiles with random new ones."""

from __future__ import annotations

from typing import Any, SupportsIndex

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from plangym_ext.envs.arguments import check_action, check_row
from plangym_ext.errors import DamagedState, ResetNeeded
from plangym_ext.states.randomness.rng import RNG_BYTES, GeneratorBytes


class Slide2048Env(gymnasium.Env[NDArray[np.uint8], np.int64]):
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

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012 - as in gymnasium.Env

    def __init__(self, size: int = 4, four: float = 0.1, *, render_mode: str | None = None) -> None:
        if not 2 <= size <= 6:
            raise ValueError(f"Slide2048Env: size must be in [2, 6]; got {size}.")
        if not 0.0 <= four <= 1.0:
            raise ValueError(f"Slide2048Env: four must be a probability, in [0, 1]; got {four}.")
        if render_mode not in (None, "ansi"):
            raise ValueError(
                f"Slide2048Env: render_mode must be None or 'ansi'; got {render_mode!r}."
            )
        self.size, self.four = size, float(four)
        self.render_mode = render_mode
        # No tile is larger than 2**(size**2 + 1): so many cells hold it and those it came of.
        self.observation_space = spaces.Box(0, size * size + 1, (size, size), np.uint8)
        self.action_space = spaces.Discrete(4)
        self._rng = GeneratorBytes()
        self._cells: list[int] = []  # until the first reset

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Begin with two tiles. No options are used."""
        super().reset(seed=seed, options=options)
        self._cells = [0] * self.size**2
        self._add_tile()
        self._add_tile()
        return self._observe(), self._info()

    def step(
        self, action: SupportsIndex
    ) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        """Slide all tiles; `truncated` is always False.

        Raises:
            InvalidAction: `action` is no integer in [0, 4).
            ResetNeeded: before the first reset.
        """
        direction = check_action("Slide2048Env.step", action, 4)
        self._check_ready("step")
        cells, reward = self._slid(direction)
        # A slide that moves nothing draws nothing.
        if cells != self._cells:
            self._cells = cells
            self._add_tile()
        # After the new tile, which may fill the last cell.
        info = self._info()
        return self._observe(), float(reward), not info["action_mask"].any(), False, info

    def render(self) -> str | None:
        """Return the tiles in rows, `.` for empty cells; None without a render mode."""
        if self.render_mode is None:
            gymnasium.logger.warn("Slide2048Env.render: no render_mode was given.")
            return None
        self._check_ready("render")
        tiles = ["." if cell == 0 else str(2**cell) for cell in self._cells]
        rows = (tiles[at : at + self.size] for at in range(0, len(tiles), self.size))
        return "\n".join(" ".join(row) for row in rows)

    def get_state(self) -> NDArray[np.uint8]:
        """Return the cells as observed and `np_random` (40 bytes), uint8, fresh.

        Raises:
            ResetNeeded: before the first reset.
            IncompleteState: `np_random` was replaced by one that is not over PCG64.
        """
        self._check_ready("get_state")
        data = bytearray(self._cells) + bytes(RNG_BYTES)
        self._rng.capture(self.np_random, memoryview(data), len(self._cells))
        return np.frombuffer(data, np.uint8)

    def set_state(self, state: NDArray[np.uint8]) -> None:
        """Continue from `state`, of `get_state`; no reset is needed.

        Raises:
            DamagedState: wrong size or type, or no state of this env; nothing is changed.
        """
        count = self.size**2
        data = check_row("Slide2048Env.set_state", state, count + RNG_BYTES)
        if max(data[:count]) > count + 1:
            raise DamagedState(
                f"Slide2048Env.set_state: expected tiles of 0 to {count + 1}; got "
                f"{list(data[:count])}. Pass a row from get_state of an env of this size."
            )
        self._rng.check(self.np_random, data[count:], "Slide2048Env.set_state")
        self._rng.restore(self.np_random, memoryview(data), count)
        self._cells = list(data[:count])

    def _check_ready(self, where: str) -> None:
        if not self._cells:
            raise ResetNeeded(f"{where}: Slide2048Env has no tiles yet; call reset() first.")

    def _slid(self, direction: int) -> tuple[list[int], int]:
        """Return the cells after a slide, without the new tile, and what it pays."""
        cells, reward = [0] * self.size**2, 0
        for k in range(self.size):
            line = line_of(direction, k, self.size)
            put, last = 0, 0  # the tile that the next one may meet
            for at in line:
                tile = self._cells[at]
                if tile == 0:
                    continue
                if tile == last:
                    cells[line[put - 1]] = tile + 1
                    reward, last = reward + 2 ** (tile + 1), 0
                else:
                    cells[line[put]] = last = tile
                    put += 1
        return cells, reward

    def _add_tile(self) -> None:
        """Put a 2 or a 4 on one of the empty cells; there is one."""
        empty = [at for at, tile in enumerate(self._cells) if tile == 0]
        # The place is drawn before the kind: episodes of a seed depend on the order.
        place = empty[self.np_random.integers(len(empty))]
        self._cells[place] = 2 if self.np_random.random() < self.four else 1

    def _observe(self) -> NDArray[np.uint8]:
        return np.array(self._cells, np.uint8).reshape(self.size, self.size)

    def _info(self) -> dict[str, Any]:
        moves = [self._slid(direction)[0] != self._cells for direction in range(4)]
        return {"action_mask": np.array(moves, np.int8)}


def line_of(direction: int, k: int, size: int) -> list[int]:
    """Return the cells of row or column k in the order of the slide."""
    if direction % 2 == 0:
        line = list(range(k, size * size, size))
    else:
        line = list(range(k * size, (k + 1) * size))
    # Down and right: the last cell is filled first.
    return line[::-1] if direction in (1, 2) else line

"""The best expected score of a small 2048, found by trying everything."""

from __future__ import annotations

import functools

import numpy as np

from plangym_ext.envs.rules.slide_2048 import Slide2048Env, slide


class Expectimax:
    """Expected scores of the best play, undiscounted; cells are a tuple, as its state has them."""

    def __init__(self, size: int, four: float) -> None:
        self.env = Slide2048Env(size, four)
        self.value = functools.cache(self._value)

    def actions(self, cells: tuple[int, ...]) -> dict[int, float]:
        """The expected score of each slide that moves something."""
        found = {}
        for direction in range(4):
            slid = np.array(cells, np.uint8)
            moves, reward = slide(slid, self.env.size, direction, True)
            if moves:
                found[direction] = reward + self._after(tuple(slid.tolist()))
        return found

    def _after(self, slid: tuple[int, ...]) -> float:
        """The mean over the tiles that may appear."""
        empty = [at for at, tile in enumerate(slid) if tile == 0]
        total = 0.0
        for at in empty:
            for tile, chance in ((1, 1 - self.env.four), (2, self.env.four)):
                if chance:
                    total += chance * self.value((*slid[:at], tile, *slid[at + 1 :]))
        return total / len(empty)

    def _value(self, cells: tuple[int, ...]) -> float:
        return max(self.actions(cells).values(), default=0.0)

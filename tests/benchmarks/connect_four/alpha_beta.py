"""A Connect Four player that looks a fixed number of moves ahead."""

from __future__ import annotations

import functools
from dataclasses import KW_ONLY, dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from connect_four.solver import bits_of, count_of, has_line, playable_cells
from plangym_ext.planners import Budget, Plan, Planner
from plangym_ext.planners.request import PlanRequest

#: A line now; less for one that comes later.
_WON = 1_000_000


@functools.cache
def _windows() -> npt.NDArray[np.int64]:
    """Return the bits of the 69 places of a line."""
    found = []
    for column in range(7):
        for row in range(6):
            for right, up in ((0, 1), (1, 0), (1, 1), (1, -1)):
                if 0 <= column + 3 * right < 7 and 0 <= row + 3 * up < 6:
                    cells = [(column + k * right) * 7 + row + k * up for k in range(4)]
                    found.append(sum(1 << cell for cell in cells))
    return np.array(found)


@njit
def _worth(stones: int, every: int, windows: npt.NDArray[np.int64]) -> int:
    """Return what the lines are worth that the mover can still make, less the other's."""
    other, total = stones ^ every, 0
    for window in windows:
        mine, theirs = stones & window, other & window
        if theirs == 0 and mine:
            total += count_of(mine) ** 3
        elif mine == 0 and theirs:
            total -= count_of(theirs) ** 3
    return total


@njit("int64(int64, int64, int64, int64, int64, int64[:])")
def _search(
    stones: int, every: int, depth: int, low: int, high: int, windows: npt.NDArray[np.int64]
) -> int:
    playable = playable_cells(every)
    if playable == 0:
        return 0
    if depth == 0:
        return _worth(stones, every, windows)
    best = -2 * _WON
    for column in (3, 2, 4, 1, 5, 0, 6):
        move = playable & (63 << (7 * column))
        if move == 0:
            continue
        if has_line(stones | move):
            return _WON + depth
        value = -_search(stones ^ every, every | move, depth - 1, -high, -low, windows)
        best = max(best, value)
        low = max(low, best)
        if low >= high:
            break
    return best


@njit
def _values(
    stones: int, every: int, depth: int, windows: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    values = np.full(7, -3 * _WON)
    playable = playable_cells(every)
    for column in range(7):
        move = playable & (63 << (7 * column))
        if move and has_line(stones | move):
            values[column] = _WON + depth
        elif move:
            values[column] = -_search(
                stones ^ every, every | move, depth - 1, -2 * _WON, 2 * _WON, windows
            )
    return values


@dataclass
class AlphaBeta(Planner):
    """Plays a move that is best after `depth` moves, drawn where several are.

    At the end of the search a line of `k` stones that can still become one of four counts `k^3`.
    """

    _: KW_ONLY
    depth: int = 4

    @property
    def two_players(self) -> bool:
        return True

    def _plan_batch(self, request: PlanRequest) -> list[Plan]:
        plans = []
        for obs, rng in zip(request.obs, request.rngs, strict=True):
            values = _values(*bits_of(obs), self.depth, _windows())
            action = int(rng.choice(np.flatnonzero(values == values.max())))
            plans.append(Plan(action, float(values.max()), Budget()))
        return plans

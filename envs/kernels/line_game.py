"""Compiled kernel of LineGame (tic-tac-toe, Connect Four), with the rules of `LineGameEnv`.

A state is the row of bytes that the env's `get_state` returns: cells, and whether it is over.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from plangym_ext.envs.line_game import EMPTY
from plangym_ext.native.compiled import compiled
from plangym_ext.native.kernel.kernel import Kernel


class LineGame(NamedTuple):
    """The env's arguments."""

    rows: int
    columns: int
    length: int
    gravity: bool
    stones_per_turn: int


def kernel(env: Any) -> Kernel:
    """Return the kernel of a `LineGameEnv`."""
    sizes = int(env.rows), int(env.columns), int(env.length)
    params = LineGame(*sizes, bool(env.gravity), int(env.stones_per_turn))
    state = np.dtype(("u1", (params.rows * params.columns + 1,)))
    mask = ("action_mask", "i1", (int(env.action_space.n),))
    info = np.dtype([("player", "<i8"), ("to_play", "<i8"), mask])
    return Kernel(state, step, reset, observe, params, info, check, reset_info)


@compiled
def _to_play(state: Any, params: Any) -> int:
    # Counted, not kept: a row of state then holds nothing that could contradict its board.
    stones = 0
    for k in range(state.size - 1):
        stones += state[k] != EMPTY
    return stones // params.stones_per_turn % 2


@compiled
def _run(state: Any, params: Any, cell: int, down: int, right: int) -> int:
    """Return how many stones of the same colour follow in a direction."""
    row, column, count = cell // params.columns + down, cell % params.columns + right, 0
    while 0 <= row < params.rows and 0 <= column < params.columns:
        if state[row * params.columns + column] != state[cell]:
            break
        row, column, count = row + down, column + right, count + 1
    return count


@compiled
def _has_line(state: Any, params: Any, cell: int) -> bool:
    """Return whether a stone is part of a line of its colour."""
    for direction in range(4):
        # (0, 1), (1, 0), (1, 1) and (1, -1).
        down = 0 if direction == 0 else 1
        right = 1 if direction % 2 == 0 else (direction - 1) // -2
        ahead = _run(state, params, cell, down, right)
        if 1 + ahead + _run(state, params, cell, -down, -right) >= params.length:
            return True
    return False


@compiled
def _cell(state: Any, params: Any, place: int) -> int:
    """Return the cell that an action means; in a full column its highest."""
    if not params.gravity:
        return place
    row = params.rows - 1
    while row > 0 and state[row * params.columns + place] != EMPTY:
        row -= 1
    return row * params.columns + place


@compiled
def _describe(state: Any, params: Any, player: int, info: Any) -> None:
    """Write the infos of a step: last player, next player, legal cells."""
    info["player"] = player
    info["to_play"] = _to_play(state, params)
    mask = info["action_mask"]
    # The highest row has room where a column has any.
    for k in range(mask.size):
        mask[k] = state[k] == EMPTY and state[state.size - 1] == 0


def step(state: Any, params: Any, action: int, info: Any) -> tuple[float, bool, bool]:
    """Place a stone."""
    player, reward, last = _to_play(state, params), 0.0, state.size - 1
    if state[last] == 0:
        cell = _cell(state, params, action)
        if state[cell] != EMPTY:
            reward = -1.0
        else:
            state[cell] = 1 + player
            if _has_line(state, params, cell):
                reward = 1.0
        # A full board is over, too: a draw, if no stone has just won.
        over = True
        for k in range(last):
            over = over and state[k] != EMPTY
        state[last] = over or reward != 0.0
    _describe(state, params, player, info)
    return reward, state[last] != 0, False


def reset(state: Any, params: Any) -> None:
    """Empty the board."""
    state[:] = 0


def reset_info(state: Any, params: Any, info: Any) -> None:
    """Write the infos of the empty board."""
    _describe(state, params, 0, info)


def observe(state: Any, params: Any, obs: Any) -> None:
    """Write the stones of the next player, then those of the other."""
    mine = 1 + _to_play(state, params)
    flat = obs.reshape(-1)
    cells = state.size - 1
    for k in range(cells):
        flat[k] = state[k] == mine
        flat[cells + k] = state[k] == 3 - mine  # 1 + 2: the other's colour


def check(state: Any, params: Any) -> bool:
    """Return whether it is a board."""
    for k in range(state.size - 1):
        if state[k] > 2:
            return False
    # The last byte says whether the game is over.
    return state[state.size - 1] <= 1

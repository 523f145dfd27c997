"""Compiled kernel of Sokoban, with the rules of `SokobanEnv`.

A state is the row of bytes that the env's `get_state` returns: cells, the player's row
and column, the cursor of the sequential order, the generator.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from plangym_ext.envs.sokoban.cells import (
    BOX,
    BOX_ON_TARGET,
    COLOURS,
    NUM_CODES,
    PLAYER,
    PLAYER_ON_TARGET,
    TARGET,
    WALL,
    push,
)
from plangym_ext.native.compiled import compiled
from plangym_ext.native.kernel import pcg64
from plangym_ext.native.kernel.row_kernel import Kernel
from plangym_ext.states.randomness.rng import RNG_BYTES

compiled(push)

_INFO = np.dtype([("boxes_on_target", "<i8"), ("solved", "?")])
_RNG = pcg64.RNG
_CURSOR_BYTES = 4


class Sokoban(NamedTuple):
    """The env's arguments; C is H * W cells."""

    height: int
    width: int
    num_boxes: int
    levels: np.ndarray  # [L, C] uint8; [0, C] where levels are generated
    is_random: bool  # the order of the levels
    step_reward: float
    box_reward: float
    solved_reward: float
    pixels: int  # side of a cell's square in the observation; 0 for planes
    colours: np.ndarray  # [7, 3] uint8


def kernel(env: Any) -> Kernel:
    """Return the kernel of a `SokobanEnv`."""
    height, width = env.dim
    # `[L, C]` below, also of no levels: a kernel's arguments have one type each.
    boards = [] if env.levels is None else [board.reshape(-1) for board in env.levels]
    params = Sokoban(
        height=int(height),
        width=int(width),
        num_boxes=int(env.num_boxes),
        levels=np.array(boards, np.uint8).reshape(-1, height * width),
        is_random=env.level_order == "random",
        step_reward=env.step_reward,
        box_reward=env.box_reward,
        solved_reward=env.solved_reward,
        pixels=0 if env.observation == "planes" else int(env.cell_pixels),
        colours=COLOURS.copy(),
    )
    # Generating levels takes numba's generator, which is imported when it is needed.
    reset = f"{__package__}.sokoban_levels:" + ("generate" if env.levels is None else "take")
    state = np.dtype(("u1", (env.state_width,)))
    return Kernel(state, step, reset, observe, params, _INFO, check, reset_info)


@compiled
def generator(state: Any) -> Any:
    """Return the generator inside a state, as a record of `pcg64.RNG`."""
    # A view: what is drawn changes the state's own bytes.
    return state[state.size - RNG_BYTES :].view(_RNG)[0]


@compiled
def place_player(state: Any, width: int, player: int) -> None:
    """Write the player's row and column."""
    at = state.size - RNG_BYTES - _CURSOR_BYTES - 2
    state[at] = player // width
    state[at + 1] = player % width


@compiled
def _player(state: Any, width: int) -> Any:
    # Widened: run as Python, a uint8 times the width would wrap at 256.
    at = state.size - RNG_BYTES - _CURSOR_BYTES - 2
    return np.int64(state[at]) * width + np.int64(state[at + 1])


@compiled
def cursor(state: Any) -> Any:
    """Return the cursor of the sequential order."""
    at = state.size - RNG_BYTES - _CURSOR_BYTES
    value = np.int64(0)
    for k in range(_CURSOR_BYTES):
        value += np.int64(state[at + k]) << (8 * k)
    return value


@compiled
def set_cursor(state: Any, value: int) -> None:
    """Write the cursor of the sequential order."""
    at = state.size - RNG_BYTES - _CURSOR_BYTES
    for k in range(_CURSOR_BYTES):
        state[at + k] = (value >> (8 * k)) & 255


@compiled
def _count(cells: Any, code: int) -> int:
    found = 0
    for k in range(cells.size):
        found += cells[k] == code
    return found


@compiled
def _describe(cells: Any, left: int, info: Any) -> None:
    info["boxes_on_target"] = _count(cells, BOX_ON_TARGET)
    info["solved"] = left == 0


def step(state: Any, params: Any, action: int, info: Any) -> tuple[float, bool, bool]:
    """Move or push."""
    p = params
    cells = state[: p.height * p.width]
    reward, left = 0.0, _count(cells, BOX)
    if left > 0:
        player, gained = push(cells, p.width, _player(state, p.width), action)
        place_player(state, p.width, player)
        # 1 for a box pushed onto a target, -1 for one pushed off, 0 else.
        left -= gained
        solved = 1 if left == 0 else 0
        reward = p.step_reward + p.box_reward * gained + p.solved_reward * solved
    _describe(cells, left, info)
    return reward, left == 0, False


def reset_info(state: Any, params: Any, info: Any) -> None:
    """Write the infos of the first board."""
    cells = state[: params.height * params.width]
    _describe(cells, _count(cells, BOX), info)


def observe(state: Any, params: Any, obs: Any) -> None:
    """Write planes of 0 and 1, or coloured squares."""
    if params.pixels == 0:
        flat = obs.reshape(-1)
        flat[:] = 0
        for k in range(params.height * params.width):
            flat[k * NUM_CODES + np.int64(state[k])] = 1
        return
    for row in range(params.height * params.pixels):
        for column in range(params.width * params.pixels):
            code = state[row // params.pixels * params.width + column // params.pixels]
            for channel in range(3):
                obs[row, column, channel] = params.colours[code, channel]


def check(state: Any, params: Any) -> bool:
    """Return whether it is a legal board, as `SokobanEnv.set_state` demands."""
    height, width = params.height, params.width
    cells = state[: height * width]
    counts = np.zeros(NUM_CODES, np.int64)
    for k in range(cells.size):
        if cells[k] >= NUM_CODES:
            return False
        counts[cells[k]] += 1
    # A ring of walls: moves and pushes look up to two cells on, without asking for the edge.
    for k in range(width):
        if cells[k] != WALL or cells[cells.size - 1 - k] != WALL:
            return False
    for k in range(height):
        if cells[k * width] != WALL or cells[k * width + width - 1] != WALL:
            return False
    boxes = counts[BOX] + counts[BOX_ON_TARGET]
    if counts[BOX] != counts[TARGET] + counts[PLAYER_ON_TARGET] or boxes == 0:
        return False
    at = _player(state, width)
    # Before `cells[at]` is read: compiled code checks no index.
    if counts[PLAYER] + counts[PLAYER_ON_TARGET] != 1 or at >= cells.size:
        return False
    # Generated levels have no order: their cursor is always 0.
    last = max(params.levels.shape[0] - 1, 0)
    stands = cells[at] == PLAYER or cells[at] == PLAYER_ON_TARGET
    return stands and cursor(state) <= last and pcg64.could_be_rng(generator(state))

"""LineGame env for two players: tic-tac-toe, Connect Four and other n-in-a-row games."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from plangym_ext.errors import InvalidOption, InvalidSamples
from plangym_ext.native.compiled import compiled
from plangym_ext.native.kernel.row_kernel import Kernel
from plangym_ext.native.kernel.rules_env import RulesEnv

EMPTY = 0
#: Of envs for two players.
METADATA: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 2, "num_players": 2}


def info_of(num_actions: int) -> np.dtype[Any]:
    """Return the infos of a game for two players: who moved, who moves next, and where."""
    mask = ("action_mask", "i1", (num_actions,))
    return np.dtype([("player", "<i8"), ("to_play", "<i8"), mask])


class LineGame(NamedTuple):
    """The env's arguments."""

    rows: int
    columns: int
    length: int
    gravity: bool
    stones_per_turn: int


class LineGameEnv(RulesEnv):
    """Tic-tac-toe, Connect Four and their kind: `length` stones in a line win.

    Players 0 and 1 take turns of `stones_per_turn` stones. An action is a cell, row by row, or
    with `gravity` a column, into whose lowest empty cell the stone falls. A line is
    horizontal, vertical or diagonal. A full board without a line is a draw. A stone where there is
    no room ends the game at once, and loses it.

    The reward is that of the player who moved: 1 for a line, -1 for a stone without room, else 0;
    the other player's is its negative. Infos: `player`, who made the move, `to_play`, who makes the
    next, and `action_mask`, where there is room (nowhere once the game is over). Steps after
    the end change nothing, pay 0 and report it again. Nothing is random.

    The observation is `[2, rows, columns]` uint8, fresh: the stones of the player who moves next,
    then those of the other.

    Args:
        rows: of the board, 1 to 16.
        columns: of the board, 1 to 16.
        length: stones of a line.
        gravity: whether stones fall to the lowest empty cell of their column.
        stones_per_turn: stones that a player places before it is the other's turn.
        render_mode: None or "ansi".

    Raises:
        ValueError: an argument is out of range.
    """

    metadata = METADATA

    def __init__(
        self,
        rows: int = 3,
        columns: int = 3,
        length: int = 3,
        *,
        gravity: bool = False,
        stones_per_turn: int = 1,
        render_mode: str | None = None,
    ) -> None:
        if not (1 <= rows <= 16 and 1 <= columns <= 16):
            raise InvalidOption(
                f"LineGameEnv: a board has 1 to 16 rows, columns; got {rows, columns}."
            )
        if not 1 <= length <= max(rows, columns):
            raise InvalidOption(
                f"LineGameEnv: length must be in [1, {max(rows, columns)}], to have room; "
                f"got {length}."
            )
        if stones_per_turn < 1:
            raise InvalidOption(
                f"LineGameEnv: stones_per_turn must be >= 1; got {stones_per_turn}."
            )
        places = columns if gravity else rows * columns
        # Cells row by row, EMPTY or 1 + player; then whether the game is over.
        state = np.dtype(("u1", (rows * columns + 1,)))
        self.params = LineGame(rows, columns, length, bool(gravity), stones_per_turn)
        kernel = Kernel(
            state, step, reset, observe, self.params, info_of(places), check, reset_info
        )
        obs = spaces.Box(0, 1, (2, rows, columns), np.uint8)
        super().__init__(kernel, obs, spaces.Discrete(places), render_mode=render_mode)

    def text(self) -> str:
        """Return the board, `x` for player 0 and `o` for player 1."""
        signs = ["." if cell == EMPTY else "xo"[cell - 1] for cell in self.state[:-1]]
        width = self.params.columns
        return "\n".join("".join(signs[at : at + width]) for at in range(0, len(signs), width))


@compiled
def to_play(state: Any, params: Any) -> int:
    """Return who places the next stone."""
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
def has_line(state: Any, params: Any, cell: int) -> bool:
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
def describe(state: Any, params: Any, player: int, info: Any) -> None:
    """Write the infos of a step: last player, next player, legal cells."""
    info["player"] = player
    info["to_play"] = to_play(state, params)
    mask = info["action_mask"]
    # The highest row has room where a column has any.
    for k in range(mask.size):
        mask[k] = state[k] == EMPTY and state[state.size - 1] == 0


def step(state: Any, params: Any, action: int, info: Any) -> tuple[float, bool, bool]:
    """Place a stone."""
    player, reward, last = to_play(state, params), 0.0, state.size - 1
    if state[last] == 0:
        cell = _cell(state, params, action)
        if state[cell] != EMPTY:
            reward = -1.0
        else:
            state[cell] = 1 + player
            if has_line(state, params, cell):
                reward = 1.0
        # A full board is over, too: a draw, if no stone has just won.
        over = True
        for k in range(last):
            over = over and state[k] != EMPTY
        state[last] = over or reward != 0.0
    describe(state, params, player, info)
    return reward, state[last] != 0, False


def reset(state: Any, params: Any) -> None:
    """Empty the board."""
    state[:] = 0


def reset_info(state: Any, params: Any, info: Any) -> None:
    """Write the infos of the empty board."""
    describe(state, params, 0, info)


def observe(state: Any, params: Any, obs: Any) -> None:
    """Write the stones of the next player, then those of the other."""
    mine = 1 + to_play(state, params)
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


def mirrored(
    rows: Mapping[str, npt.NDArray[Any]], draws: npt.NDArray[np.float64]
) -> dict[str, npt.NDArray[Any]]:
    """Return learned rows with every second board left for right, on average; fresh arrays.

    An `augment` of algorithms that learn from plans.

    Args:
        rows: by name, `[batch, ...]`: "obs", `[batch, 2, rows, columns]`, and what has a number
            for each action, a column or a cell, are turned; "action", an action's number, cannot
            be, as it may be either.
        draws: `[batch]` in [0, 1).

    Raises:
        InvalidSamples: there are actions' numbers.
    """
    if "action" in rows:
        raise InvalidSamples(
            "mirrored: rows must have a number for each action, such as a policy; got 'action'. "
            "Leave augment out for what learns from actions."
        )
    height, width = rows["obs"].shape[2:]
    turned = draws < 0.5
    found = {}
    for name, values in rows.items():
        found[name] = values.copy()
        board = values[turned]
        if values.ndim == 2 and values.shape[1] == height * width:
            board = board.reshape(len(board), height, width)
        elif values.shape[-1] != width or values.ndim == 1:
            continue
        found[name][turned] = board[..., ::-1].reshape(values[turned].shape)
    return found

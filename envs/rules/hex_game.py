"""HexGame env for two players: the first connects top and bottom, the second left and right."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from plangym_ext.envs.rules.line_game import (
    EMPTY,
    METADATA,
    check,
    describe,
    info_of,
    reset,
    reset_info,
    to_play,
)
from plangym_ext.errors import InvalidOption
from plangym_ext.native.compiled import compiled
from plangym_ext.native.kernel.row_kernel import Kernel
from plangym_ext.native.kernel.rules_env import RulesEnv

#: Rows and columns from a cell to its six neighbours.
_NEIGHBOURS = np.array([[0, 1], [0, -1], [1, 0], [-1, 0], [-1, 1], [1, -1]], np.int64)


class HexGame(NamedTuple):
    """The env's arguments, and what it has in common with a game of lines."""

    rows: int
    columns: int
    stones_per_turn: int


class HexGameEnv(RulesEnv):
    """Hex: players place a stone in turn; a chain between a player's two edges wins.

    An action is a cell, row by row. Cell (r, c) touches (r, c +- 1), (r +- 1, c), (r - 1, c + 1)
    and (r + 1, c - 1). Player 0 connects the first row with the last, player 1 the first column
    with the last; there are no draws, and no swap after the first move. A stone on a taken cell
    loses at once.

    Rewards, infos and the end are those of `LineGameEnv`. The observation is
    `[3, rows, columns]` uint8, fresh: the stones of the player who moves next, those of the
    other, and that player's number, 0 or 1, everywhere.

    Args:
        rows: of the board, 1 to 19.
        columns: of the board, 1 to 19.
        render_mode: None or "ansi".

    Raises:
        ValueError: an argument is out of range.
    """

    metadata = METADATA

    def __init__(
        self, rows: int = 11, columns: int = 11, *, render_mode: str | None = None
    ) -> None:
        if not (1 <= rows <= 19 and 1 <= columns <= 19):
            raise InvalidOption(
                f"HexGameEnv: a board has 1 to 19 rows, columns; got {rows, columns}."
            )
        places = rows * columns
        # Cells row by row, EMPTY or 1 + player; then whether the game is over.
        state, params = np.dtype(("u1", (places + 1,))), HexGame(int(rows), int(columns), 1)
        kernel = Kernel(state, step, reset, observe, params, info_of(places), check, reset_info)
        obs = spaces.Box(0, 1, (3, rows, columns), np.uint8)
        super().__init__(kernel, obs, spaces.Discrete(places), render_mode=render_mode)

    def text(self) -> str:
        """Return the board, each row half a cell to the right of the one above."""
        columns = self.kernel.params.columns
        rows = self.state[:-1].reshape(-1, columns)
        return "\n".join(
            " " * i + " ".join(".xo"[cell] for cell in row) for i, row in enumerate(rows)
        )


@compiled
def _connects(state: Any, params: Any, cell: int) -> bool:
    """Return whether the chain of a stone touches both edges of its player."""
    rows, columns, colour = params.rows, params.columns, state[cell]
    seen, waiting = np.zeros(rows * columns, np.bool_), np.empty(rows * columns, np.int64)
    seen[cell], waiting[0], count = True, cell, 1
    first, last = False, False
    while count > 0:
        count -= 1
        row, column = waiting[count] // columns, waiting[count] % columns
        first = first or (row == 0 if colour == 1 else column == 0)
        last = last or (row == rows - 1 if colour == 1 else column == columns - 1)
        for k in range(6):
            down, right = row + _NEIGHBOURS[k, 0], column + _NEIGHBOURS[k, 1]
            if 0 <= down < rows and 0 <= right < columns:
                at = down * columns + right
                if state[at] == colour and not seen[at]:
                    seen[at], waiting[count] = True, at
                    count += 1
    return first and last


def step(state: Any, params: Any, action: int, info: Any) -> tuple[float, bool, bool]:
    """Place a stone."""
    player, reward, last = to_play(state, params), 0.0, state.size - 1
    if state[last] == 0:
        if state[action] != EMPTY:
            reward = -1.0
        else:
            state[action] = 1 + player
            reward = 1.0 if _connects(state, params, action) else 0.0
        state[last] = reward != 0.0
    describe(state, params, player, info)
    return reward, state[last] != 0, False


def observe(state: Any, params: Any, obs: Any) -> None:
    """Write the stones of the next player, those of the other, and the player."""
    player, cells, flat = to_play(state, params), state.size - 1, obs.reshape(-1)
    for k in range(cells):
        flat[k] = state[k] == 1 + player
        flat[cells + k] = state[k] == 2 - player
        flat[2 * cells + k] = player

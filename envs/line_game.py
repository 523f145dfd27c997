"""LineGame env for two players: tic-tac-toe, Connect Four and other n-in-a-row games."""

from __future__ import annotations

from typing import Any, SupportsIndex

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from plangym_ext.envs.arguments import check_action, check_row
from plangym_ext.errors import DamagedState

EMPTY = 0


class LineGameEnv(gymnasium.Env[NDArray[np.uint8], np.int64]):
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

    action_space: spaces.Discrete
    metadata: dict[str, Any] = {  # noqa: RUF012 - as in gymnasium.Env
        "render_modes": ["ansi"],
        "render_fps": 2,
        "num_players": 2,
    }

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
            raise ValueError(
                f"LineGameEnv: a board has 1 to 16 rows, columns; got {rows, columns}."
            )
        if not 1 <= length <= max(rows, columns):
            raise ValueError(
                f"LineGameEnv: length must be in [1, {max(rows, columns)}], to have room; "
                f"got {length}."
            )
        if stones_per_turn < 1:
            raise ValueError(f"LineGameEnv: stones_per_turn must be >= 1; got {stones_per_turn}.")
        if render_mode not in (None, "ansi"):
            raise ValueError(
                f"LineGameEnv: render_mode must be None or 'ansi'; got {render_mode!r}."
            )
        self.rows, self.columns, self.length = rows, columns, length
        self.gravity, self.stones_per_turn = bool(gravity), stones_per_turn
        self.render_mode = render_mode
        self.observation_space = spaces.Box(0, 1, (2, rows, columns), np.uint8)
        self._places = columns if gravity else rows * columns
        self.action_space = spaces.Discrete(self._places)
        # Cells row by row, EMPTY or 1 + player; then whether the game is over.
        self._board = bytearray(rows * columns + 1)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Empty the board; player 0 begins. No options are used."""
        super().reset(seed=seed, options=options)
        self._board = bytearray(len(self._board))
        return self._observe(), self._info(0)

    def step(
        self, action: SupportsIndex
    ) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        """Place a stone; `truncated` is always False.

        Raises:
            InvalidAction: `action` is no integer, or out of range.
        """
        place = check_action("LineGameEnv.step", action, self._places)
        player, reward = self.to_play, 0.0
        if not self._board[-1]:
            cell = self._cell(place)
            if self._board[cell] != EMPTY:
                reward = -1.0
            else:
                self._board[cell] = 1 + player
                reward = float(self._has_line(cell))
            # After the reward: a line on the last empty cell is a win, no draw.
            self._board[-1] = reward != 0.0 or EMPTY not in self._board[:-1]
        return self._observe(), reward, bool(self._board[-1]), False, self._info(player)

    @property
    def to_play(self) -> int:
        """The player who places the next stone, 0 or 1."""
        stones = len(self._board) - 1 - self._board[:-1].count(EMPTY)
        return stones // self.stones_per_turn % 2

    def render(self) -> str | None:
        """Return the board, `x` for player 0 and `o` for player 1; None without a render mode."""
        if self.render_mode is None:
            gymnasium.logger.warn("LineGameEnv.render: no render_mode was given.")
            return None
        signs = ["." if cell == EMPTY else "xo"[cell - 1] for cell in self._board[:-1]]
        width = self.columns
        return "\n".join("".join(signs[at : at + width]) for at in range(0, len(signs), width))

    def get_state(self) -> NDArray[np.uint8]:
        """Return the cells, row by row, and whether the game is over, `[rows * columns + 1]` uint8.

        A cell is 0, 1 (player 0's stone) or 2 (player 1's). The array is fresh.
        """
        # Of a copy: an array that shared the board's memory would change with the next step.
        return np.frombuffer(bytearray(self._board), np.uint8)

    def set_state(self, state: NDArray[np.uint8]) -> None:
        """Continue from `state`, of `get_state`; no reset is needed.

        Raises:
            DamagedState: wrong size or type, or no board; nothing is changed.
        """
        data = check_row("LineGameEnv.set_state", state, len(self._board))
        if max(data[:-1]) > 2 or data[-1] > 1:
            raise DamagedState(
                f"LineGameEnv.set_state: expected cells of 0, 1 or 2 and a last byte of 0 or 1; "
                f"got {list(data)}. Pass a row from get_state of an env with these arguments."
            )
        self._board = bytearray(data)

    def _cell(self, place: int) -> int:
        """Return the cell that an action means; in a full column its highest."""
        if not self.gravity:
            return place
        row = self.rows - 1
        while row > 0 and self._board[row * self.columns + place] != EMPTY:
            row -= 1
        return row * self.columns + place

    def _has_line(self, cell: int) -> bool:
        """Return whether a stone is part of a line of its colour."""
        row, column = divmod(cell, self.columns)
        # Through this stone alone: any other line would have ended the game before.
        for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
            count = 1 + self._run(row, column, down, right) + self._run(row, column, -down, -right)
            if count >= self.length:
                return True
        return False

    def _run(self, row: int, column: int, down: int, right: int) -> int:
        """Return how many stones of the same colour follow in a direction."""
        colour, count = self._board[row * self.columns + column], 0
        row, column = row + down, column + right
        while 0 <= row < self.rows and 0 <= column < self.columns:
            if self._board[row * self.columns + column] != colour:
                break
            row, column, count = row + down, column + right, count + 1
        return count

    def _observe(self) -> NDArray[np.uint8]:
        cells = np.frombuffer(self._board, np.uint8)[:-1].reshape(self.rows, self.columns)
        mine = 1 + self.to_play
        # 3 - mine is the other's colour. Fresh: comparing and stacking copy the board's memory.
        return np.stack([cells == mine, cells == 3 - mine]).astype(np.uint8)

    def _info(self, player: int) -> dict[str, Any]:
        """Return the infos of a step: last player, next player, legal cells."""
        mask = np.frombuffer(self._board, np.uint8)[:-1] == EMPTY
        if self.gravity:
            # The highest row has room where a column has any.
            mask = mask[: self.columns]
        if self._board[-1]:
            mask = np.zeros_like(mask)
        return {"player": player, "to_play": self.to_play, "action_mask": mask.astype(np.int8)}

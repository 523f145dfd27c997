"""GridWorld env: rooms of text with walls, keys, doors, traps and treasures; toy Montezuma."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from plangym_ext.errors import InvalidOption
from plangym_ext.native.compiled import compiled
from plangym_ext.native.kernel.row_kernel import Kernel
from plangym_ext.native.kernel.rules_env import RulesEnv

_FLOOR, _WALL, _KEY, _DOOR, _TRAP, _TREASURE, _PLAYER = range(7)
_SIGNS = ".#kDx$@"
_MOST_KEYS = 255

#: Six rooms in two rows, each seven cells high and nine wide, with two doors and three keys. The
#: treasure lies beyond a door; the shortest way to it has 41 steps.
TOY_MONTEZUMA = (
    "###########################",
    "#.......#.........#.......#",
    "#.......D....@....#..x.x..#",
    "#.......#.........#.......#",
    "#...$...#..x...x.....x.x..#",
    "#.......#.........#......k#",
    "#########....#....#########",
    "#.......#....#....#.......#",
    "#.x.x.x.#..###.####.......#",
    "#.x.x.x.#.......#.........#",
    "#...x.............D.......#",
    "#.x.x.x.#.......###....k..#",
    "#kx...x.#.......#.#.......#",
    "###########################",
)


class GridWorld(NamedTuple):
    """The map as `[rows * columns]` codes of cells, its size, and that of a room."""

    cells: np.ndarray
    rows: int
    columns: int
    room_rows: int
    room_columns: int
    start: int


class GridWorldEnv(RulesEnv):
    """A map of rooms, of which the player sees the one that it is in.

    Signs of the map: `.` floor, `#` wall, `@` the start, `k` a key, `D` a door, which takes a key,
    `x` a trap, which ends the episode, and `$` a treasure, which pays 1. Actions 0, 1, 2, 3 go
    up, right, down, left; walls, the edge, and doors without a key stop the player. The episode
    ends with the last treasure. Everything else pays 0, and nothing is random.

    The observation is `[room_rows * room_columns + 2]` uint8, fresh: the cells of the room, row by
    row, as places in ".#kDx$@", the number of the room, and the keys in hand.

    Args:
        map: lines of text of one length, with one start and a treasure; None for `TOY_MONTEZUMA`.
        room: rows and columns of a room, which divide those of the map; None for one room, and for
            7 by 9 without a map.
        render_mode: None or "ansi".

    Raises:
        ValueError: the map or the rooms are not as said.

    Source: in the manner of "toy Montezuma's Revenge", Roderick et al. 2017, "Deep abstract
    Q-networks"; the map is our own.
    """

    def __init__(
        self,
        map: Sequence[str] | None = None,  # noqa: A002 - the field's word
        room: tuple[int, int] | None = None,
        *,
        render_mode: str | None = None,
    ) -> None:
        lines = TOY_MONTEZUMA if map is None else tuple(map)
        params = _params(lines, (7, 9) if map is None and room is None else room)
        # The player's cell, the keys in hand, and the map without what has been taken.
        fields = [("at", "<u4"), ("keys", "u1"), ("cells", "u1", (params.cells.size,))]
        kernel = Kernel(np.dtype(fields), step, reset, observe, params, check=check)
        size = params.room_rows * params.room_columns + 2
        high = np.full(size, _PLAYER, np.uint8)
        high[-2] = params.cells.size // (size - 2) - 1
        high[-1] = min(int((params.cells == _KEY).sum()), _MOST_KEYS)
        obs = spaces.Box(np.zeros(size, np.uint8), high, dtype=np.uint8)
        super().__init__(kernel, obs, spaces.Discrete(4), render_mode=render_mode)

    def text(self) -> str:
        """Return the whole map, with the player, and the keys in hand."""
        params, signs = self.kernel.params, [_SIGNS[cell] for cell in self.state["cells"]]
        signs[self.state["at"]] = "@"
        width = params.columns
        rows = ["".join(signs[at : at + width]) for at in range(0, len(signs), width)]
        return "\n".join([*rows, f"keys: {self.state['keys']}"])


def _params(lines: Sequence[str], room: tuple[int, int] | None) -> GridWorld:
    text, rows = "".join(lines), len(lines)
    columns = len(lines[0]) if lines else 0
    room_rows, room_columns = room or (rows, columns)
    if {len(line) for line in lines} != {columns} or set(text) - set(_SIGNS):
        raise InvalidOption(
            f"GridWorldEnv: a map has lines of one length, of the signs {_SIGNS!r}; got {lines!r}."
        )
    if text.count("@") != 1 or "$" not in text or text.count("k") > _MOST_KEYS:
        raise InvalidOption(
            f"GridWorldEnv: a map has one start @, a treasure $ and at most {_MOST_KEYS} keys; "
            f"got {lines!r}."
        )
    if min(room_rows, room_columns) < 1 or rows % room_rows or columns % room_columns:
        raise InvalidOption(
            f"GridWorldEnv: rooms of {room_rows} by {room_columns} do not divide a map of {rows} "
            f"by {columns}."
        )
    start = text.index("@")
    cells = np.array([_SIGNS.index(sign) for sign in text], np.uint8)
    cells[start] = _FLOOR
    return GridWorld(cells, rows, columns, int(room_rows), int(room_columns), start)


@compiled
def _target(params: Any, at: int, action: int) -> int:
    """Return the cell that an action leads to, -1 beyond the edge."""
    row, column = at // params.columns, at % params.columns
    if action == 0:
        row -= 1
    elif action == 1:
        column += 1
    elif action == 2:
        row += 1
    else:
        column -= 1
    inside = 0 <= row < params.rows and 0 <= column < params.columns
    return row * params.columns + column if inside else -1


def step(state: Any, params: Any, action: int, info: Any) -> tuple[float, bool, bool]:
    """Go one cell, and take what lies there."""
    cells, reward = state["cells"], 0.0
    at: Any = np.int64(state["at"])
    to = _target(params, at, action)
    found = _WALL if to < 0 else np.int64(cells[to])
    if found == _WALL or (found == _DOOR and state["keys"] == 0) or cells[at] == _TRAP:
        found = _WALL
    else:
        state["at"] = to
    if found in (_KEY, _DOOR, _TREASURE):
        cells[to] = _FLOOR
    if found == _KEY:
        state["keys"] += 1
    elif found == _DOOR:
        state["keys"] -= 1
    over = cells[state["at"]] == _TRAP
    if found == _TREASURE:
        reward, over = 1.0, True
        for cell in cells:
            over = over and cell != _TREASURE
    return reward, over, False


def reset(state: Any, params: Any) -> None:
    """Put everything back."""
    state["at"] = params.start
    state["keys"] = 0
    state["cells"][:] = params.cells


def observe(state: Any, params: Any, obs: Any) -> None:
    """Write the room, its number, and the keys."""
    at = np.int64(state["at"])
    row, column = at // params.columns, at % params.columns
    top, left = row - row % params.room_rows, column - column % params.room_columns
    k = 0
    for i in range(params.room_rows):
        for j in range(params.room_columns):
            cell = (top + i) * params.columns + left + j
            obs[k] = _PLAYER if cell == at else state["cells"][cell]
            k += 1
    across = params.columns // params.room_columns
    obs[k] = top // params.room_rows * across + left // params.room_columns
    obs[k + 1] = state["keys"]


def check(state: Any, params: Any) -> bool:
    """Return whether the player stands on the map, which holds no more than at first."""
    keys = np.int64(state["keys"])
    for i in range(params.cells.size):
        cell = state["cells"][i]
        if cell != params.cells[i] and cell != _FLOOR:
            return False
        keys += cell == _KEY
        keys -= params.cells[i] == _KEY
    at = state["at"]
    # A door that was opened took a key: there are never more than the map has.
    is_place = at < params.cells.size and state["cells"][at] != _WALL
    return bool(keys <= 0 and is_place)

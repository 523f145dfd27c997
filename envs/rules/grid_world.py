"""GridWorld env: rooms of text with walls, keys, doors, boxes, traps; toy Montezuma."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from plangym_ext.errors import InvalidOption
from plangym_ext.native.compiled import compiled
from plangym_ext.native.kernel.row_kernel import Kernel
from plangym_ext.native.kernel.rules_env import RulesEnv

_FLOOR, _WALL, _KEY, _DOOR, _TRAP, _TREASURE, _PLAYER, _BOX = range(8)
_SIGNS = ".#kDx$@b"
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
    lives: int
    trap_reward: float


class GridWorldEnv(RulesEnv):
    """A map of rooms, of which the player sees the one that it is in.

    Signs of the map: `.` floor, `#` wall, `@` the start, `k` a key, `D` a door, which takes a key,
    `x` a trap, which takes a life, `b` a box, which can be pushed onto floor, and `$` a treasure,
    which pays 1. Actions 0, 1, 2, 3 go up, right, down, left; walls, the edge, doors without a key
    and boxes that cannot move stop the player. A lost life pays `trap_reward`, and the player is
    back where it came into the room. The episode ends with the last treasure or life. Everything
    else pays 0, and nothing is random.

    The observation is `[room_rows * room_columns + 3]` uint8, fresh: the cells of the room, row by
    row, as places in ".#kDx$@b", the number of the room, the keys in hand, and the lives.

    Args:
        map: lines of text of one length, with one start and a treasure; None for `TOY_MONTEZUMA`.
        room: rows and columns of a room, which divide those of the map; None for one room, and for
            7 by 9 without a map.
        lives: 1 to 255.
        trap_reward: of a life that is lost.
        render_mode: None or "ansi".

    Raises:
        ValueError: the map or the rooms are not as said.

    Source: the rules of "toy Montezuma's Revenge", Roderick et al. 2017, "Deep abstract
    Q-networks", where rooms are entered through walls; a treasure is its goal room. The map is our
    own.
    """

    def __init__(
        self,
        map: Sequence[str] | None = None,  # noqa: A002 - the field's word
        room: tuple[int, int] | None = None,
        *,
        lives: int = 1,
        trap_reward: float = 0.0,
        render_mode: str | None = None,
    ) -> None:
        if not 1 <= lives <= 255:
            raise InvalidOption(f"GridWorldEnv: lives must be in [1, 255]; got {lives}.")
        lines = TOY_MONTEZUMA if map is None else tuple(map)
        params = _params(lines, (7, 9) if map is None and room is None else room)
        params = params._replace(lives=int(lives), trap_reward=float(trap_reward))
        # The player's cell, that where it came into the room, and the map as it has become.
        fields = [("at", "<u4"), ("entered", "<u4"), ("keys", "u1"), ("lives", "u1")]
        fields += [("treasures", "<u4"), ("cells", "u1", (params.cells.size,))]
        kernel = Kernel(np.dtype(fields), step, reset, observe, params, check=check)
        size = params.room_rows * params.room_columns + 3
        high = np.full(size, _BOX, np.uint8)
        rooms = params.cells.size // (size - 3)
        high[-3:] = rooms - 1, int((params.cells == _KEY).sum()), lives
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
    return GridWorld(cells, rows, columns, int(room_rows), int(room_columns), start, 1, 0.0)


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


@compiled
def _push(cells: Any, params: Any, to: int, action: int) -> bool:
    """Push the box of a cell, and return whether it could be."""
    beyond = _target(params, to, action)
    if beyond < 0 or cells[beyond] != _FLOOR:
        return False
    cells[to], cells[beyond] = _FLOOR, _BOX
    return True


@compiled
def _room(params: Any, at: int) -> int:
    """Return the number of a cell's room, row by row."""
    across = params.columns // params.room_columns
    down = at // params.columns // params.room_rows
    return down * across + at % params.columns // params.room_columns


def step(state: Any, params: Any, action: int, info: Any) -> tuple[float, bool, bool]:
    """Go one cell, and take what lies there."""
    cells, reward = state["cells"], 0.0
    at: Any = np.int64(state["at"])
    over = state["lives"] == 0 or state["treasures"] == 0
    to = -1 if over else _target(params, at, action)
    found = _WALL if to < 0 else np.int64(cells[to])
    if found == _BOX:
        found = _FLOOR if _push(cells, params, to, action) else _WALL
    if found == _TRAP:
        state["lives"] -= 1
        reward = params.trap_reward
        if state["lives"] > 0:
            state["at"] = state["entered"]
    elif found != _WALL and (found != _DOOR or state["keys"] > 0):
        state["at"] = to
        cells[to] = _FLOOR
        if _room(params, to) != _room(params, at):
            state["entered"] = to
        if found == _KEY:
            state["keys"] += 1
        elif found == _DOOR:
            state["keys"] -= 1
        elif found == _TREASURE:
            state["treasures"] -= 1
            reward = 1.0
    return reward, state["lives"] == 0 or state["treasures"] == 0, False


def reset(state: Any, params: Any) -> None:
    """Put everything back."""
    state["at"] = state["entered"] = params.start
    state["keys"] = 0
    state["lives"] = params.lives
    state["cells"][:] = params.cells
    state["treasures"] = (params.cells == _TREASURE).sum()


def observe(state: Any, params: Any, obs: Any) -> None:
    """Write the room, its number, keys and lives."""
    at, cells, columns = np.int64(state["at"]), state["cells"], params.columns
    row, column = at // columns, at % columns
    top, left = row - row % params.room_rows, column - column % params.room_columns
    k = 0
    for i in range(params.room_rows):
        begin = (top + i) * columns + left
        for cell in range(begin, begin + params.room_columns):
            obs[k] = cells[cell]
            k += 1
    obs[(row - top) * params.room_columns + column - left] = _PLAYER
    obs[k] = _room(params, at)
    obs[k + 1] = state["keys"]
    obs[k + 2] = state["lives"]


def check(state: Any, params: Any) -> bool:
    """Return whether the player stands on the map, which holds no more than at first."""
    cells, first = state["cells"], params.cells
    is_open = (first != _WALL) & ((cells == _FLOOR) | (cells == _BOX))
    # A door that was opened took a key: there are never more than the map has.
    keys = state["keys"] + (cells == _KEY).sum() <= (first == _KEY).sum()
    boxes = (cells == _BOX).sum() == (first == _BOX).sum()
    treasures = (cells == _TREASURE).sum() == state["treasures"]
    if not (np.all((cells == first) | is_open) and keys and boxes and treasures):
        return False
    is_place = max(state["at"], state["entered"]) < first.size
    return bool(is_place and cells[state["at"]] == _FLOOR and state["lives"] <= params.lives)

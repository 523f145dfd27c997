"""GridWorld env: rooms of text with walls, keys, doors, boxes, traps; toy Montezuma."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
from gymnasium import spaces

from plangym_ext.core.options import Range
from plangym_ext.errors import InvalidOption
from plangym_ext.native.compiled import compiled
from plangym_ext.native.kernel.row_kernel import Kernel
from plangym_ext.native.kernel.rules_env import RulesEnv

_FLOOR, _WALL, _KEY, _DOOR, _TRAP, _TREASURE, _PLAYER, _BOX = range(8)
_SIGNS = ".#kDx$@b"
_ITEMS = "kD$b"
_GONE = 65_535  # the place of an item that was taken, or of a door that was opened

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
    """The map without items as `[rows * columns]` codes, the items, and the sizes."""

    cells: np.ndarray
    kinds: np.ndarray
    places: np.ndarray
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
        lives: Annotated[int, Range(1, 255)] = 1,
        trap_reward: float = 0.0,
        render_mode: str | None = None,
    ) -> None:
        lines = TOY_MONTEZUMA if map is None else tuple(map)
        params = _params(lines, (7, 9) if map is None and room is None else room)
        params = params._replace(lives=int(lives), trap_reward=float(trap_reward))
        # The player's cell, that where it came into the room, and where the items are: what was
        # taken says how many keys are in hand.
        count = params.places.size
        fields = [("at", "<u2"), ("entered", "<u2"), ("lives", "u1"), ("places", "<u2", (count,))]
        kernel = Kernel(np.dtype(fields), step, reset, observe, params, check=check)
        size = params.room_rows * params.room_columns + 3
        high = np.full(size, _BOX, np.uint8)
        rooms = params.cells.size // (size - 3)
        high[-3:] = min(rooms - 1, 255), min((params.kinds == _KEY).sum(), 255), lives
        obs = spaces.Box(np.zeros(size, np.uint8), high, dtype=np.uint8)
        super().__init__(kernel, obs, spaces.Discrete(4), render_mode=render_mode)

    def text(self) -> str:
        """Return the whole map, with the player, and the keys in hand."""
        params = self.kernel.params
        shown = np.append(params.cells, 0)  # what is gone lies beyond the map
        shown[np.minimum(self.state["places"], params.cells.size)] = params.kinds
        shown[self.state["at"]] = _PLAYER
        lines = shown[:-1].reshape(-1, params.columns)
        rows = ["".join(_SIGNS[cell] for cell in line) for line in lines]
        return "\n".join([*rows, f"keys: {_counts(self.state, params)[0]}"])


def _params(lines: Sequence[str], room: tuple[int, int] | None) -> GridWorld:
    text, rows = "".join(lines), len(lines)
    columns = len(lines[0]) if lines else 0
    room_rows, room_columns = room or (rows, columns)
    if {len(line) for line in lines} != {columns} or set(text) - set(_SIGNS):
        raise InvalidOption(
            f"GridWorldEnv: a map has lines of one length, of the signs {_SIGNS!r}; got {lines!r}."
        )
    if text.count("@") != 1 or "$" not in text or max(text.count("k"), len(text) >> 8) > 254:
        raise InvalidOption(
            "GridWorldEnv: a map has one start @, a treasure $, at most 254 keys and 65,279 cells; "
            f"got {lines!r}."
        )
    is_split = min(room_rows, room_columns) >= 1 and not (
        rows % room_rows or columns % room_columns
    )
    if not is_split or len(text) > 256 * room_rows * room_columns:
        raise InvalidOption(
            f"GridWorldEnv: rooms of {room_rows} by {room_columns} do not divide a map of {rows} "
            f"by {columns} into at most 256."
        )
    places = np.array([at for at, sign in enumerate(text) if sign in _ITEMS], np.int64)
    cells = np.array([_SIGNS.index(sign) for sign in text], np.uint8)
    kinds, start = cells[places], text.index("@")
    cells[places] = cells[start] = _FLOOR
    sizes = (rows, columns, int(room_rows), int(room_columns))
    return GridWorld(cells, kinds, places, *sizes, start, 1, 0.0)


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
def _counts(state: Any, params: Any) -> tuple[int, int]:
    """Return how many keys are in hand, and how many treasures are left."""
    places, kinds, keys, treasures = state["places"], params.kinds, 0, 0
    for i in range(places.size):
        if places[i] == _GONE:
            keys += 1 if kinds[i] == _KEY else -1 if kinds[i] == _DOOR else 0
        elif kinds[i] == _TREASURE:
            treasures += 1
    return keys, treasures


@compiled
def _item(places: Any, cell: int) -> int:
    """Return the item of a cell, -1 if there is none."""
    for i in range(places.size):
        if places[i] == cell:
            return i
    return -1


@compiled
def _room(params: Any, at: int) -> int:
    """Return the number of a cell's room, row by row."""
    across = params.columns // params.room_columns
    down = at // params.columns // params.room_rows
    return down * across + at % params.columns // params.room_columns


def step(state: Any, params: Any, action: int, info: Any) -> tuple[float, bool, bool]:
    """Go one cell, and take what lies there."""
    places: Any = state["places"]
    at: Any = np.int64(state["at"])
    keys, treasures = _counts(state, params)
    to = _target(params, at, action)
    if to < 0 or state["lives"] == 0 or treasures == 0:
        return 0.0, state["lives"] == 0 or treasures == 0, False
    item = _item(places, to)
    found: Any = np.int64(params.cells[to] if item < 0 else params.kinds[item])
    if found == _BOX:
        beyond = _target(params, to, action)
        if beyond >= 0 and params.cells[beyond] == _FLOOR and _item(places, beyond) < 0:
            places[item], found = beyond, _FLOOR
    elif item >= 0 and (found != _DOOR or keys > 0):
        places[item] = _GONE
    if found == _TRAP:
        state["lives"] -= 1
        state["at"] = state["entered"] if state["lives"] > 0 else at
        return params.trap_reward, state["lives"] == 0, False
    if found not in (_WALL, _BOX) and (found != _DOOR or keys > 0):
        state["at"] = to
        if _room(params, to) != _room(params, at):
            state["entered"] = to
    is_treasure = found == _TREASURE
    return 1.0 if is_treasure else 0.0, is_treasure and treasures == 1, False


def reset(state: Any, params: Any) -> None:
    """Put everything back."""
    state["at"] = state["entered"] = params.start
    state["lives"] = params.lives
    state["places"][:] = params.places


def observe(state: Any, params: Any, obs: Any) -> None:
    """Write the room, its number, keys and lives."""
    at: Any = np.int64(state["at"])
    places, columns = state["places"], params.columns
    row, column = at // columns, at % columns
    top, left = row - row % params.room_rows, column - column % params.room_columns
    k = 0
    for i in range(params.room_rows):
        begin = (top + i) * columns + left
        for cell in range(begin, begin + params.room_columns):
            obs[k] = params.cells[cell]
            k += 1
    for i in range(places.size):
        down, right = np.int64(places[i]) // columns - top, np.int64(places[i]) % columns - left
        if 0 <= down < params.room_rows and 0 <= right < params.room_columns:
            obs[down * params.room_columns + right] = params.kinds[i]
    obs[(row - top) * params.room_columns + column - left] = _PLAYER
    obs[k] = _room(params, at)
    obs[k + 1] = _counts(state, params)[0]
    obs[k + 2] = state["lives"]


def check(state: Any, params: Any) -> bool:
    """Return whether player and boxes stand on floor, and all else lies as at first or is gone."""
    places = state["places"]
    for i in range(places.size):
        if params.kinds[i] == _BOX:
            if places[i] >= params.cells.size or params.cells[places[i]] != _FLOOR:
                return False
        elif places[i] != params.places[i] and places[i] != _GONE:
            return False
    if max(state["at"], state["entered"]) >= params.cells.size or state["lives"] > params.lives:
        return False
    return params.cells[state["at"]] == _FLOOR and _counts(state, params)[0] >= 0

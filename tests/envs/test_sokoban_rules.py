from __future__ import annotations

import re

import numba
import numpy as np
import pytest

from plangym_ext.envs.sokoban.cells import DOWN, LEFT, PLAYER, RIGHT, SYMBOLS, UP, find_fault, push

# A corridor before and after a move to the right, and the change in boxes on targets.
MOVES = [
    ("#@ #", "# @#", 0),
    ("#@.#", "# +#", 0),
    ("#+ #", "#.@#", 0),
    ("#+.#", "#.+#", 0),
    ("#@#", "#@#", 0),
    ("#+#", "#+#", 0),
    # One box: off and on targets.
    ("#@$ #", "# @$#", 0),
    ("#@$.#", "# @*#", 1),
    ("#@* #", "# +$#", -1),
    ("#@*.#", "# +*#", 0),
    ("#+$.#", "#.@*#", 1),
    ("#+* #", "#.+$#", -1),
    # Blocked by a wall or by a second box, on or off a target.
    ("#@$#", "#@$#", 0),
    ("#@*#", "#@*#", 0),
    ("#@$$ #", "#@$$ #", 0),
    ("#@$* #", "#@$* #", 0),
    ("#@*$ #", "#@*$ #", 0),
    ("#@**.#", "#@**.#", 0),
]


def board_of(corridor: str) -> np.ndarray:
    line = [SYMBOLS.index(symbol) for symbol in corridor]
    wall = [0] * len(line)
    return np.array([wall, line, wall], np.uint8)


def turned(corridor: str, action: int) -> np.ndarray:
    """The corridor's board, turned so that its right end lies towards `action`."""
    quarters = {RIGHT: 0, UP: 1, LEFT: 2, DOWN: 3}[action]
    return np.ascontiguousarray(np.rot90(board_of(corridor), quarters))


def player_in(board: np.ndarray) -> int:
    return int(np.flatnonzero(board.ravel() >= PLAYER)[0])


@pytest.mark.parametrize("action", [UP, DOWN, LEFT, RIGHT])
@pytest.mark.parametrize(("before", "after", "gained"), MOVES)
def test_a_move_follows_the_table_in_every_direction(before, after, gained, action):
    board, expected = turned(before, action), turned(after, action)
    cells = bytearray(board.tobytes())
    player, change = push(cells, board.shape[1], player_in(board), action)
    assert bytes(cells) == expected.tobytes()
    assert (player, change) == (player_in(expected), gained)


@pytest.mark.slow
def test_the_compiled_rule_equals_the_python_rule():
    compiled = numba.njit(push)
    for before, after, gained in MOVES:
        board = board_of(before)
        cells = board.ravel().copy()
        result = compiled(cells, board.shape[1], player_in(board), RIGHT)
        assert result == (player_in(board_of(after)), gained)
        np.testing.assert_array_equal(cells, board_of(after).ravel())


@pytest.mark.parametrize(
    ("rows", "row", "words"),
    [
        (["####", "#@.#", "#$ #", "####"], None, ""),
        (["####", "#@. ", "#$ #", "####"], 1, "outermost cells must all be walls"),
        (["## #", "#@.#", "#$ #", "####"], 0, "outermost cells must all be walls"),
        (["####", "#@.#", "#$ #", "#.##"], 3, "outermost cells must all be walls"),
        (["####", "#@.#", "#$@#", "####"], -1, r"exactly one player \('@' or '\+'\); got 2"),
        (["####", "# .#", "#$ #", "####"], -1, "exactly one player .*; got 0"),
        (["####", "#@.#", "#$.#", "####"], -1, "got 1 boxes and 2 targets"),
        (["####", "#@ #", "#  #", "####"], -1, "got 0 boxes and 0 targets"),
    ],
)
def test_a_fault_is_named_with_its_row(rows, row, words):
    cells = bytes(SYMBOLS.index(symbol) for line in rows for symbol in line)
    fault = find_fault(cells, len(rows[0]))
    if row is None:
        assert fault is None
    else:
        assert fault is not None
        assert fault[0] == row
        assert re.search(words, fault[1])

"""The pushes that a board needs at least, beside those that it takes."""

from __future__ import annotations

import itertools
from collections import deque

import numpy as np
import pytest

from plangym_ext.envs.sokoban import SokobanEnv, parse_levels
from plangym_ext.envs.sokoban.cells import one_hot_planes, push
from plangym_ext.envs.sokoban.generator import generate_level
from plangym_ext.envs.sokoban.heuristic import UNSOLVABLE, _nearest, _rate, pushes_to_go

pytestmark = pytest.mark.slow


def board_of(text):
    return parse_levels(text)[0]


def said(*boards):
    return pushes_to_go(np.stack([one_hot_planes(board) for board in boards])).tolist()


def least_pushes(board):
    """The fewest pushes that solve a board, by a search of all positions; moves cost nothing."""
    width = board.shape[1]
    cells = bytes(board.tobytes())
    open_ones, known = deque([(0, cells)]), {cells}
    while open_ones:
        pushes, cells = open_ones.popleft()
        if 4 not in cells:
            return pushes
        for action in range(4):
            after = bytearray(cells)
            push(after, width, max(cells.find(5), cells.find(6)), action)
            if bytes(after) in known:
                continue
            known.add(bytes(after))
            boxes = [tuple(i for i, c in enumerate(row) if c in (3, 4)) for row in (cells, after)]
            if boxes[0] == boxes[1]:
                open_ones.appendleft((pushes, bytes(after)))
            else:
                open_ones.append((pushes + 1, bytes(after)))
    return np.inf


def test_a_corridor_takes_as_many_pushes_as_it_has_cells():
    assert said(board_of("########\n#@ $  .#\n########")) == [3]
    assert said(board_of("######\n#@ * #\n######")) == [0]


def test_two_boxes_do_not_share_a_target():
    # To its nearest target each box needs one push, but both have the same one.
    board = board_of("##########\n#  $.$  .#\n#@       #\n#        #\n##########")
    assert said(board) == [1 + 3]


def test_a_box_in_a_corner_is_unsolvable():
    assert said(board_of("######\n#$   #\n# @ .#\n#    #\n######"))[0] >= UNSOLVABLE


def test_it_never_says_too_much_and_often_all():
    boards = [generate_level(seed, (6, 6), 2)[0] for seed in range(6)]
    needed = np.array([least_pushes(board) for board in boards])
    told = np.array(said(*boards))
    assert (told <= needed).all()
    assert (told == needed).any()
    # A board does not depend on those before it.
    assert [said(board)[0] for board in reversed(boards)] == told.tolist()[::-1]


def test_every_way_to_share_out_the_targets_is_looked_at():
    rng = np.random.default_rng(0)
    for _ in range(5):
        cells = np.ones((9, 9), np.uint8)
        cells[0] = cells[-1] = cells[:, 0] = cells[:, -1] = 0
        spots = rng.permutation([(r, c) for r in range(2, 7) for c in range(2, 7)])
        boxes, targets = spots[:4], spots[4:8]
        for (r, c), code in zip([*boxes, *targets, spots[8]], [4] * 4 + [2] * 4 + [5], strict=True):
            cells[r, c] = code
        # No wall is near: a box needs as many pushes as the target is rows and columns away.
        costs = np.abs(boxes[:, None] - targets[None]).sum(axis=2)
        least = min(costs[range(4), list(p)].sum() for p in itertools.permutations(range(4)))
        assert said(cells) == [least]


def test_with_many_boxes_each_takes_its_nearest_target():
    text = "\n".join(["#" * 15, "#@" + " " * 12 + "#"] + ["# $.$.$.$.$.$. #"[:14] + "#"] * 2)
    text += "\n#" + " " * 13 + "#\n" + "#" * 15
    board = board_of(text)
    assert board.tobytes().count(4) == 12
    assert said(board) == [12]
    distances = np.array([[1, 5], [4, -1]])
    assert getattr(_nearest, "py_func", _nearest)(distances, np.array([0, 1]), 2) == 1 + 5


def test_it_runs_as_python():
    boards = [generate_level(seed, (6, 6), 2)[0] for seed in range(3)]
    planes = np.stack([one_hot_planes(board) for board in boards]).reshape(3, 36, 7)
    found = np.zeros(3)
    getattr(_rate, "py_func", _rate)(planes, 6, found)
    assert found.tolist() == said(*boards)


def test_pictures_are_refused():
    env = SokobanEnv(dim=(6, 6), num_boxes=1, observation="rgb")
    obs, _ = env.reset(seed=0)
    with pytest.raises(ValueError, match=r"pushes_to_go: .*got \[1, 6, 6, 3\]"):
        pushes_to_go(obs[None])

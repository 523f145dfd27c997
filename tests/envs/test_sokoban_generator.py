from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plangym_ext.envs.sokoban import Levels, SokobanEnv
from plangym_ext.envs.sokoban.generator import generate_level

SIZES = [((6, 6), 1), ((8, 8), 2), ((10, 10), 4)]

# All tests here may wait for the kernels to compile, once per machine.
pytestmark = pytest.mark.slow


def fewest_pushes(board: np.ndarray) -> int:
    """A lower bound: each box has to go to its nearest target, boxes not in the way."""
    distance = np.where(board == 2, 0, 10**6)
    for _ in range(board.size):
        near = distance.copy()
        near[1:] = np.minimum(near[1:], distance[:-1] + 1)
        near[:-1] = np.minimum(near[:-1], distance[1:] + 1)
        near[:, 1:] = np.minimum(near[:, 1:], distance[:, :-1] + 1)
        near[:, :-1] = np.minimum(near[:, :-1], distance[:, 1:] + 1)
        near[board == 0] = 10**6
        if (near == distance).all():
            break
        distance = near
    return int(distance[board == 4].sum())


def check(seed: int, dim: tuple[int, int], boxes: int) -> None:
    board, solution = generate_level(seed, dim, boxes)
    assert board.shape == dim
    assert board.dtype == np.uint8
    # Every box and all targets bare, but for one that the player may stand on.
    assert (board == 4).sum() == boxes
    assert (board == 3).sum() == 0
    # Two pushes per box, by a bound that does not trust the generator's own.
    bare = np.where(board == 6, 2, board)
    assert fewest_pushes(bare) >= 2 * boxes
    env = SokobanEnv(levels=Levels(board[None]))
    env.reset()
    ends = [env.step(action) for action in solution]
    # Box rewards add up to the number of boxes whatever the detours; solved pays 10.
    assert sum(end[1] for end in ends) == boxes + 10
    assert [end[2] for end in ends] == [False] * (len(ends) - 1) + [True]


@pytest.mark.parametrize(("dim", "boxes"), SIZES)
def test_hundreds_of_levels_are_solved_by_the_solution(dim, boxes):
    for seed in range(300):
        check(seed, dim, boxes)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**63 - 1),
    height=st.integers(6, 14),
    width=st.integers(6, 14),
    boxes=st.integers(1, 3),
)
def test_any_size_and_seed_gives_a_solvable_level(seed, height, width, boxes):
    check(seed, (height, width), boxes)


def test_a_level_is_a_function_of_its_seed():
    first = [generate_level(seed)[0].tobytes() for seed in range(200)]
    again = [generate_level(seed)[0].tobytes() for seed in range(200)]
    assert first == again
    # Neighbouring seeds, and seeds that differ only above 32 bits, share nothing.
    high = [generate_level(seed << 32)[0].tobytes() for seed in range(1, 200)]
    assert len({*first, *high}) == 399


def test_what_a_caller_does_to_a_level_does_not_come_back():
    board, solution = generate_level(3)
    expected = board.copy(), solution.copy()
    board[:], solution[:] = 9, 9
    for got, want in zip(generate_level(3), expected, strict=True):
        np.testing.assert_array_equal(got, want)


def test_the_kernels_give_the_same_levels_as_plain_python():
    program = (
        "from plangym_ext.envs.sokoban.generator import generate_level as g\n"
        "import zlib\n"
        "levels = [g(s, d, k) for s in (0, 2**63 - 1) "
        "for d, k in [((6, 6), 1), ((8, 8), 2), ((10, 10), 4)]]\n"
        "print([zlib.crc32(b.tobytes() + a.tobytes()) for b, a in levels])"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "NUMBA_DISABLE_JIT": flag},
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        ).stdout
        for flag in ("0", "1")
    ]
    assert said[0] == said[1]
    assert said[0].count(",") == 5


def test_more_pushes_can_be_demanded():
    for seed in range(20):
        board, _ = generate_level(seed, (8, 8), 2, min_pushes=10)
        assert fewest_pushes(np.where(board == 6, 2, board)) >= 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dim": (4, 10)}, r"dim must be 5 to 255 each; got \(4, 10\)"),
        ({"dim": (10, 256)}, r"dim must be 5 to 255 each; got \(10, 256\)"),
        ({"num_boxes": 0}, "num_boxes must be >= 1; got 0"),
        ({"min_pushes": 0}, "min_pushes must be >= 1; got 0"),
        ({"seed": -1}, r"seed must be in \[0, 2\*\*63\); got -1"),
        ({"seed": 2**63}, r"seed must be in \[0, 2\*\*63\)"),
        ({"dim": (5, 5), "num_boxes": 9}, "no level of 5x5 with 9 boxes .* Use fewer boxes"),
        ({"dim": (5, 5), "num_boxes": 40}, "no level of 5x5 with 40 boxes"),
    ],
)
def test_impossible_levels_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        generate_level(**{"seed": 0, **arguments})

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env

from plangym_ext.envs.sokoban import Levels, SokobanEnv, parse_levels
from plangym_ext.errors import DamagedState, IncompleteState, InvalidAction, ResetNeeded

UP, DOWN, LEFT, RIGHT = range(4)

# Two boxes, one of them on its target; solved by pushing the other to the right.
SMALL = """
#######
#@ $. #
#  *  #
#######
"""
# Levels told apart by where the player stands.
THREE = [SMALL, SMALL.replace("@ ", " @"), SMALL.replace("#@ $", "#  $").replace("#  *", "#@ *")]


def small(**arguments: Any) -> SokobanEnv:
    env = SokobanEnv(levels=[SMALL], **arguments)
    env.reset(seed=0)
    return env


def futures(env: SokobanEnv, seed: int = 0, steps: int = 60) -> list[Any]:
    """What random play gives from here on, resets included."""
    rng = np.random.default_rng(seed)
    seen: list[Any] = []
    for step in range(steps):
        if step % 20 == 19:
            obs, info = env.reset()
            seen.append((obs.tobytes(), info))
        obs, *rest = env.step(int(rng.integers(4)))
        seen.append((obs.tobytes(), *rest))
    return seen


def test_rewards_follow_the_boxes():
    env = small()
    # Row 1 is "@ $. ": go beside the box, push it on, push it off again.
    steps = [env.step(action)[1:] for action in (RIGHT, RIGHT)]
    assert steps[0] == (0.0, False, False, {"boxes_on_target": 1, "solved": False})
    # +1 for the box, +10 for the level.
    assert steps[1] == (11.0, True, False, {"boxes_on_target": 2, "solved": True})


def test_a_box_pushed_off_its_target_costs_one():
    env = SokobanEnv(levels=["########\n#@* $. #\n########"])
    env.reset()
    assert env.step(RIGHT)[1:] == (-1.0, False, False, {"boxes_on_target": 0, "solved": False})


def test_a_solved_board_absorbs():
    env = small(step_reward=-0.1)
    env.step(RIGHT)
    obs, *_ = env.step(RIGHT)
    for action in range(4):
        again, reward, terminated, truncated, info = env.step(action)
        np.testing.assert_array_equal(again, obs)
        assert (reward, terminated, truncated) == (0.0, True, False)
        assert info == {"boxes_on_target": 2, "solved": True}


def test_reward_options():
    env = small(step_reward=-0.1, box_reward=0.5, solved_reward=2.0)
    assert env.step(UP)[1] == -0.1  # into the wall: only the step counts
    assert env.step(RIGHT)[1] == -0.1
    assert env.step(RIGHT)[1] == pytest.approx(2.4)


def test_planes_are_one_hot_in_the_documented_order():
    env = small()
    obs, _ = env.reset()
    assert obs.shape == (4, 7, 7)
    assert obs.dtype == np.uint8
    np.testing.assert_array_equal(obs.sum(axis=-1), 1)
    np.testing.assert_array_equal(obs.argmax(axis=-1), env.board)
    # Row 1 is "#@ $. #": wall, player, floor, box, target, floor, wall.
    assert obs[1].argmax(axis=-1).tolist() == [0, 5, 1, 4, 2, 1, 0]


@pytest.mark.parametrize("pixels", [1, 3])
def test_rgb_gives_one_square_per_cell(pixels):
    env = small(observation="rgb", cell_pixels=pixels)
    obs, _ = env.reset()
    assert obs.shape == (4 * pixels, 7 * pixels, 3)
    assert obs in env.observation_space
    board = env.board
    colours = {}
    for row, col in np.ndindex(4, 7):
        square = obs[row * pixels : (row + 1) * pixels, col * pixels : (col + 1) * pixels]
        assert (square == square[0, 0]).all()
        colours.setdefault(int(board[row, col]), tuple(square[0, 0].tolist()))
        assert colours[int(board[row, col])] == tuple(square[0, 0].tolist())
    assert len(set(colours.values())) == len(colours)


def test_observations_and_boards_belong_to_the_caller():
    env = small()
    first, _ = env.reset()
    kept = first.copy()
    board = env.board
    board[:] = 0
    env.step(RIGHT)
    np.testing.assert_array_equal(first, kept)
    assert env.board.max() > 0


def test_render_draws_every_code_and_changes_nothing():
    env = small(render_mode="rgb_array")
    before = env.get_state()
    frame = env.render()
    assert frame.shape == (4 * 16, 7 * 16, 3)
    assert frame.dtype == np.uint8
    tiles = frame.reshape(4, 16, 7, 16, 3).swapaxes(1, 2)
    by_code = {int(code): tiles[index].tobytes() for index, code in np.ndenumerate(env.board)}
    assert len(set(by_code.values())) == len(by_code) == 6
    np.testing.assert_array_equal(env.get_state(), before)
    assert small(render_mode="ansi").render() == SMALL.strip("\n")


def test_rendering_without_a_mode_warns():
    with pytest.warns(UserWarning, match="no render_mode was given"):
        assert small().render() is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [{}, {"observation": "rgb", "cell_pixels": 8}, {"levels": THREE}],
    ids=["planes", "rgb", "levels"],
)
def test_gymnasiums_checker_is_content(arguments):
    spec = EnvSpec("Checked-v0", entry_point=SokobanEnv, kwargs=arguments)
    check_env(gymnasium.make(spec).unwrapped)


@pytest.mark.slow
def test_a_seed_decides_everything():
    for arguments in ({}, {"dim": (6, 6), "num_boxes": 1}, {"levels": THREE}):
        runs = []
        for seed in (5, 5, 6):
            env = SokobanEnv(**arguments)
            env.reset(seed=seed)
            runs.append(futures(env))
        assert runs[0] == runs[1]
        assert runs[0] != runs[2]


def test_sequential_levels_go_round_and_a_seed_restarts_them():
    env = SokobanEnv(levels=THREE, level_order="sequential")
    boards = env.levels
    assert isinstance(boards, Levels)

    def played(**arguments: Any) -> int:
        env.reset(**arguments)
        return next(i for i in range(3) if (boards[i] == env.board).all())

    assert [played() for _ in range(4)] == [0, 1, 2, 0]
    assert played(seed=3) == 0
    assert played(options={"level": 2}) == 2
    assert played() == 0
    assert played(options={"level": np.int64(0)}) == 0
    assert played() == 1


def test_random_levels_cover_the_file():
    env = SokobanEnv(levels=THREE)
    env.reset(seed=0)
    seen = set()
    for _ in range(60):
        env.reset()
        seen.add(env.board.tobytes())
    assert len(seen) == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [{}, {"levels": THREE}, {"levels": THREE, "level_order": "sequential"}],
    ids=["generated", "random", "sequential"],
)
def test_a_restored_state_has_the_same_future(arguments):
    env = SokobanEnv(**arguments)
    env.reset(seed=1)
    env.reset()
    for action in (RIGHT, UP, LEFT):
        env.step(action)
    state = env.get_state()
    assert state.shape == (env.state_width,)
    kept = state.copy()
    expected = futures(env)
    np.testing.assert_array_equal(state, kept)
    fresh = SokobanEnv(**arguments)
    for target in (env, fresh, fresh):
        target.set_state(state)
        np.testing.assert_array_equal(target.get_state(), state)
        assert futures(target) == expected


def test_half_a_drawn_word_is_part_of_the_state():
    # Drawing from 3 levels takes 32 of 64 bits; the rest waits for the next draw.
    env = SokobanEnv(levels=THREE)
    env.reset(seed=0)
    assert env.np_random.bit_generator.state["has_uint32"] == 1
    state = env.get_state()
    expected = futures(env, steps=400)
    other = SokobanEnv(levels=THREE)
    other.reset(seed=9)
    other.set_state(state)
    assert futures(other, steps=400) == expected


def test_the_state_starts_with_board_and_player():
    env = small()
    env.step(RIGHT)
    state = env.get_state()
    np.testing.assert_array_equal(state[:28].reshape(4, 7), env.board)
    assert state[28:30].tolist() == [1, 2]
    assert len(state) == 28 + 2 + 4 + 40


def test_the_player_is_restored_on_every_cell():
    env = small()
    base = env.get_state()
    board = env.board
    free = [cell for cell in np.ndindex(board.shape) if board[cell] in (1, 2, 5)]
    assert len(free) == 8
    for row, col in free:
        moved = board.copy()
        moved[board == 5] = 1
        moved[row, col] = 6 if moved[row, col] == 2 else 5
        state = base.copy()
        state[:28], state[28:30] = moved.ravel(), (row, col)
        env.set_state(state)
        np.testing.assert_array_equal(env.get_state(), state)
        np.testing.assert_array_equal(env.board, moved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s[:-1], r"expected \[74\] uint8; got \[73\] uint8"),
        (lambda s: s[None], r"got \[1, 74\] uint8"),
        (lambda s: s.astype(np.int64), "got .* int64"),
        (lambda s: np.r_[np.uint8(1), s[1:]], "outermost cells must all be walls"),
        (lambda s: np.where(s == 5, 1, s).astype(np.uint8), "exactly one player .* got 0"),
        (lambda s: np.r_[s[:28], np.uint8([2, 1]), s[30:]], r"at \(2, 1\).* at \(1, 1\)"),
        (lambda s: np.r_[s[:30], np.uint8([1, 0, 0, 0]), s[34:]], r"cursor in 0\.\.0; got 1"),
        (lambda s: np.r_[s[:50], s[50:51] ^ 1, s[51:]], "odd increment"),
        (lambda s: np.r_[s[:66], np.uint8(2), s[67:]], "a flag of 0 or 1"),
    ],
)
def test_a_bad_state_is_refused_and_changes_nothing(change, message):
    env = small()
    before = env.get_state()
    with pytest.raises(DamagedState, match=message):
        env.set_state(change(before.copy()))
    np.testing.assert_array_equal(env.get_state(), before)


def test_no_cell_takes_an_unknown_code():
    env = small()
    state = env.get_state()
    for cell in range(28):
        bad = state.copy()
        bad[cell] = 7
        with pytest.raises(DamagedState, match=r"codes must be 0\.\.6; got 7"):
            env.set_state(bad)


def test_another_generator_is_refused():
    env = small()
    env.np_random = np.random.Generator(np.random.MT19937(0))
    with pytest.raises(IncompleteState, match=r"PCG64.*got.*MT19937"):
        env.get_state()


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_copies_are_independent(duplicate):
    env = small()
    twin = duplicate(env)
    np.testing.assert_array_equal(twin.get_state(), env.get_state())
    twin.step(RIGHT)
    assert env.board[1, 1] == 5
    assert twin.board[1, 2] == 5
    assert env.step(RIGHT)[0].tobytes() == twin._observe().tobytes()


@pytest.mark.parametrize("action", [-1, 4, 1.0, "up", None, np.array([1, 2])])
def test_a_bad_action_is_refused(action):
    env = small()
    with pytest.raises(InvalidAction, match=r"SokobanEnv.step: .* in \[0, 4\); got"):
        env.step(action)


def test_integers_of_any_kind_are_actions():
    for action in (RIGHT, np.int64(RIGHT), np.uint8(RIGHT), np.array(RIGHT)):
        env = small()
        env.step(action)
        assert env.board[1, 2] == 5


def test_nothing_works_before_the_first_reset():
    env = SokobanEnv(levels=[SMALL], render_mode="ansi")
    for call in (lambda: env.step(0), env.get_state, env.render, lambda: env.board):
        with pytest.raises(ResetNeeded, match=r"call reset\(\) first"):
            call()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dim": (4, 6)}, r"dim must be 5 to 255 each; got \(4, 6\)"),
        ({"num_boxes": 0}, "num_boxes must be >= 1; got 0"),
        ({"observation": "image"}, r"observation must be one of .*; got 'image'"),
        ({"level_order": "any"}, r"level_order must be one of .*; got 'any'"),
        ({"render_mode": "human"}, r"render_mode must be one of .*; got 'human'"),
        ({"cell_pixels": 0}, "cell_pixels must be >= 1; got 0"),
        ({"levels": THREE, "num_boxes": 2}, "leave out num_boxes; got 2"),
        ({"levels": THREE, "dim": (10, 10)}, r"dim is \(10, 10\), but the levels are \(4, 7\)"),
        ({"levels": ["###"]}, "levels, level 0, line 1: expected exactly one player"),
        ({"levels": []}, "levels: expected at least one level; got none"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        SokobanEnv(**arguments)


@pytest.mark.parametrize(
    ("levels", "options", "message"),
    [
        (THREE, {"level": 3}, r"level must be in \[0, 3\); got 3"),
        (THREE, {"level": -1}, r"level must be in \[0, 3\); got -1"),
        (THREE, {"levle": 1}, r"the only option is 'level'; got \['levle'\]"),
        (None, {"level": 1}, "this env generates its levels"),
    ],
)
def test_bad_options_are_refused(levels, options, message):
    with pytest.raises(ValueError, match=message):
        SokobanEnv(levels=levels).reset(options=options)


def test_levels_may_be_given_in_every_form(tmp_path):
    path = tmp_path / "small.txt"
    path.write_text(SMALL, encoding="utf-8")
    for levels in (path, str(path), [SMALL], parse_levels(SMALL)):
        env = SokobanEnv(levels=levels)
        env.reset()
        assert env.dim == (4, 7)
        assert env.num_boxes == 2
        np.testing.assert_array_equal(env.board, parse_levels(SMALL)[0])


@pytest.mark.slow
def test_importing_and_playing_levels_needs_no_numba():
    program = (
        "import sys; from plangym_ext.envs.sokoban import SokobanEnv\n"
        f"env = SokobanEnv(levels=[{SMALL!r}]); env.reset(seed=0); env.step(3)\n"
        "print([name for name in ('numba', 'torch', 'pygame') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout.strip() == "[]"

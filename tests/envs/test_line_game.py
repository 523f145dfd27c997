from __future__ import annotations

import itertools

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from plangym_ext.envs.rules.line_game import LineGameEnv, has_line
from plangym_ext.errors import DamagedState, InvalidAction


def played(env, actions):
    """The last step's result of a game."""
    env.reset()
    return [env.step(action) for action in actions][-1]


def test_players_take_turns_and_the_first_line_wins():
    env = LineGameEnv(render_mode="ansi")
    steps = [env.reset()[1], *(env.step(action)[4] for action in (0, 4, 1, 5))]
    assert [info["to_play"] for info in steps] == [0, 1, 0, 1, 0]
    assert [info["player"] for info in steps[1:]] == [0, 1, 0, 1]
    np.testing.assert_array_equal(steps[-1]["action_mask"], [0, 0, 1, 1, 0, 0, 1, 1, 1])
    assert env.render() == "xx.\n.oo\n..."
    obs, reward, over, cut, info = env.step(2)
    assert (reward, over, cut, info["player"]) == (1.0, True, False, 0)
    assert not info["action_mask"].any()
    # The player who would move next sees own stones first.
    np.testing.assert_array_equal(obs[0], [[0, 0, 0], [0, 1, 1], [0, 0, 0]])
    np.testing.assert_array_equal(obs[1], [[1, 1, 1], [0, 0, 0], [0, 0, 0]])
    # The end is told again.
    assert env.step(3)[1:4] == (0.0, True, False)


@pytest.mark.parametrize(("rows", "columns", "length"), [(3, 4, 3), (4, 3, 2), (5, 5, 4)])
def test_every_line_wins(rows, columns, length):
    # All lines there are, listed by their cells; the last stone may be any of them.
    for row, column, (down, right) in itertools.product(
        range(rows), range(columns), ((0, 1), (1, 0), (1, 1), (1, -1))
    ):
        ends = row + down * (length - 1), column + right * (length - 1)
        if not (0 <= ends[0] < rows and 0 <= ends[1] < columns):
            continue
        line = [(row + down * k) * columns + column + right * k for k in range(length)]
        for last in line:
            env = LineGameEnv(rows, columns, length)
            env.reset()
            state = env.get_state()
            state[[cell for cell in line if cell != last]] = 1
            env.set_state(state)
            # The other player's stones are as many in the game; here they are left out.
            env.state[last] = 1
            assert has_line(env.state, env.params, last)


def test_stones_that_do_not_touch_are_no_line():
    env = LineGameEnv(1, 5, 3)
    env.set_state(np.array([1, 1, 0, 1, 1, 0], np.uint8))
    assert not has_line(env.state, env.params, 1)
    # Nor is one that would go round the edge.
    env = LineGameEnv()
    env.set_state(np.array([0, 1, 1, 1, 0, 0, 0, 0, 0, 0], np.uint8))
    assert not has_line(env.state, env.params, 2)


def test_a_full_board_is_a_draw_and_a_taken_cell_loses():
    env = LineGameEnv()
    assert played(env, [0, 1, 2, 4, 3, 5, 7, 6, 8])[1:3] == (0.0, True)
    _, reward, over, _, info = played(env, [4, 4])
    assert (reward, over, info["player"]) == (-1.0, True, 1)


def test_stones_fall_with_gravity():
    env = LineGameEnv(2, 3, 3, gravity=True, render_mode="ansi")
    assert env.action_space.n == 3
    _, _, over, _, info = played(env, [1, 1])
    assert env.render() == ".o.\n.x."
    np.testing.assert_array_equal(info["action_mask"], [1, 0, 1])
    assert not over
    assert env.step(1)[1:3] == (-1.0, True)


def test_a_turn_of_two_stones():
    env = LineGameEnv(3, 4, 4, stones_per_turn=2)
    env.reset()
    infos = [env.step(action)[4] for action in range(5)]
    assert [(info["player"], info["to_play"]) for info in infos] == [
        (0, 0),
        (0, 1),
        (1, 1),
        (1, 0),
        (0, 0),
    ]


@pytest.mark.filterwarnings("ignore:.*render_mode")
def test_it_is_a_gymnasium_env():
    check_env(LineGameEnv(), skip_render_check=True)
    assert isinstance(LineGameEnv().action_space, gymnasium.spaces.Discrete)


def test_what_is_wrong_is_refused():
    env = LineGameEnv()
    with pytest.raises(DamagedState, match="the kernel's check refuses"):
        env.set_state(np.full(10, 3, np.uint8))
    with pytest.raises(DamagedState, match=r"expected \[10\] uint8"):
        env.set_state(np.zeros(3, np.uint8))
    env.reset()
    with pytest.raises(InvalidAction, match=r"in \[0, 9\); got 9"):
        env.step(9)
    with pytest.raises(ValueError, match=r"1 to 16 rows, columns; got \(0, 3\)"):
        LineGameEnv(0)
    with pytest.raises(ValueError, match=r"length must be in \[1, 3\], .*got 4"):
        LineGameEnv(length=4)
    with pytest.raises(ValueError, match="stones_per_turn must be >= 1; got 0"):
        LineGameEnv(stones_per_turn=0)
    with pytest.raises(ValueError, match="render_mode must be None or 'ansi'; got 'human'"):
        LineGameEnv(render_mode="human")
    with pytest.warns(UserWarning, match="no render_mode"):
        assert env.render() is None

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env

from plangym_ext.envs.rules.narrow_path import NarrowPathEnv
from plangym_ext.errors import DamagedState, InvalidAction


def play(env: NarrowPathEnv, actions: list[int]) -> list[tuple[int, float, bool]]:
    env.reset()
    return [env.step(action)[:3] for action in actions]


def test_the_path_of_three_pays_once_before_the_end():
    # Cells 0, 1, 2, 3: entering 2 = n - 1 pays 1, entering 3 ends.
    assert play(NarrowPathEnv(3), [0, 0, 0]) == [(1, 0.0, False), (2, 1.0, False), (3, 0.0, True)]


@pytest.mark.parametrize("before", [0, 1, 2])
def test_turning_off_ends_without_pay(before):
    last = play(NarrowPathEnv(3), [0] * before + [1])[-1]
    assert last == (3, 0.0, True)


def test_the_shortest_path():
    assert play(NarrowPathEnv(2), [0, 0]) == [(1, 1.0, False), (2, 0.0, True)]
    assert play(NarrowPathEnv(2), [1]) == [(2, 0.0, True)]


def test_the_end_absorbs():
    assert play(NarrowPathEnv(3), [1, 0, 1])[1:] == [(3, 0.0, True)] * 2


def test_gymnasiums_checker_is_content():
    check_env(gymnasium.make(EnvSpec("Checked-v0", entry_point=NarrowPathEnv)).unwrapped)


def test_text():
    env = NarrowPathEnv(3, render_mode="ansi")
    env.reset()
    assert env.render() == "@..x"
    env.step(0)
    assert env.render() == ".@.x"
    env.step(1)
    assert env.render() == "...@"
    with pytest.warns(UserWarning, match="no render_mode"):
        assert NarrowPathEnv().render() is None


def test_every_cell_can_be_restored():
    source, target = NarrowPathEnv(300), NarrowPathEnv(300)
    source.reset()
    for _ in range(300):
        state = source.get_state()
        target.set_state(state)
        np.testing.assert_array_equal(target.get_state(), state)
        assert target.step(0) == source.step(0)


def test_bad_states_are_refused():
    env = NarrowPathEnv(3)
    env.reset()
    with pytest.raises(DamagedState, match=r"the kernel's check refuses \(4,\)"):
        env.set_state(np.array([4, 0, 0, 0], np.uint8))
    with pytest.raises(DamagedState, match=r"expected \[4\] uint8; got \[3\] uint8"):
        env.set_state(np.zeros(3, np.uint8))
    assert env.cell == 0


@pytest.mark.parametrize("action", [-1, 2, 0.0, None])
def test_bad_actions_are_refused(action):
    env = NarrowPathEnv()
    env.reset()
    with pytest.raises(InvalidAction, match=r"in \[0, 2\); got"):
        env.step(action)


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match=r"n must be in \[2, .*got 1"):
        NarrowPathEnv(1)
    with pytest.raises(ValueError, match="render_mode must be None or 'ansi'; got 'human'"):
        NarrowPathEnv(render_mode="human")

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env

from plangym_ext.envs.rules.chain_mdp import ChainMDPEnv
from plangym_ext.errors import DamagedState, InvalidAction, ResetNeeded


def at(cell: int, **arguments: float) -> ChainMDPEnv:
    """An env in a given cell."""
    env = ChainMDPEnv(3, **arguments)
    env.reset(seed=0)
    state = env.get_state()
    state[:4] = (cell, 0, 0, 0)
    env.set_state(state)
    return env


@pytest.mark.parametrize(
    ("cell", "action", "after", "reward"),
    [
        (0, 0, 3, 0.7),
        (0, 1, 1, 0.0),
        (1, 0, 0, 0.0),
        (1, 1, 2, 0.0),
        (2, 0, 1, 0.0),
        (2, 1, 3, 1.0),
        (3, 0, 3, 0.0),
        (3, 1, 3, 0.0),
    ],
)
def test_a_sure_move_follows_the_table(cell, action, after, reward):
    obs, got, terminated, truncated, info = at(cell).step(action)
    np.testing.assert_array_equal(obs, np.eye(4, dtype=np.float32)[after])
    assert (got, terminated, truncated, info) == (reward, after == 3, False, {})


def test_values_of_the_chain_of_three():
    # Value iteration on the env itself, discount 0.5; the table is the source's own.
    value = np.zeros(4)
    for _ in range(20):
        quality = np.zeros((4, 2))
        for cell in range(4):
            for action in range(2):
                obs, reward, terminated, *_ = at(cell).step(action)
                quality[cell, action] = reward + 0.5 * (1 - terminated) * value[obs.argmax()]
        value = quality.max(axis=1)
    np.testing.assert_allclose(quality, [[0.7, 0.25], [0.35, 0.5], [0.25, 1.0], [0, 0]])


def test_a_move_succeeds_with_probability_p():
    env = ChainMDPEnv(10_000, p=0.25)
    env.reset(seed=0)
    state = env.get_state()
    state[:4] = (136, 19, 0, 0)  # cell 5000
    env.set_state(state)
    for _ in range(4000):
        env.step(1)
    # Binomial: mean 1000, deviation sqrt(4000 * 0.25 * 0.75) = 27.
    assert abs(env.cell - 6000) < 4 * 27


def test_p_zero_never_moves():
    env = at(2, p=0.0)
    assert [env.step(1)[2] for _ in range(20)] == [False] * 20


def test_a_reset_draws_every_cell_the_absorbing_one_included():
    env = ChainMDPEnv(3)
    env.reset(seed=0)
    counts = np.zeros(4)
    for _ in range(4000):
        obs, _ = env.reset()
        counts[obs.argmax()] += 1
    # Each mean 1000, deviation sqrt(4000 * 0.25 * 0.75) = 27.
    assert (abs(counts - 1000) < 4 * 27).all()


def test_gymnasiums_checker_is_content():
    check_env(gymnasium.make(EnvSpec("Checked-v0", entry_point=ChainMDPEnv)).unwrapped)


def test_text():
    env = at(1)
    env.render_mode = "ansi"
    assert env.render() == ".@.x"
    env.render_mode = None
    with pytest.warns(UserWarning, match="no render_mode"):
        assert env.render() is None


def test_a_restored_state_has_the_same_future():
    def futures(env: ChainMDPEnv) -> list[tuple[bytes, float, bool]]:
        seen = []
        for step in range(100):
            if step % 7 == 6:
                seen.append((env.reset()[0].tobytes(), 0.0, False))
            obs, reward, terminated, *_ = env.step(step % 2)
            seen.append((obs.tobytes(), reward, terminated))
        return seen

    env = ChainMDPEnv(5, 0.5)
    for resets in range(1, 4):  # odd and even numbers of 32-bit draws
        env.reset(seed=2)
        for _ in range(resets):
            env.reset()
        state = env.get_state()
        expected = futures(env)
        for target in (env, ChainMDPEnv(5, 0.5)):
            target.set_state(state)
            np.testing.assert_array_equal(target.get_state(), state)
            assert futures(target) == expected


def test_bad_states_are_refused():
    env = at(1)
    before = env.get_state()
    with pytest.raises(DamagedState, match=r"expected \[44\] uint8; got \[43\]"):
        env.set_state(before[:-1])
    for at_byte, value, message in (
        (0, 4, r"check refuses \(4, "),
        (20, before[20] ^ 1, "odd increment"),
        (36, 2, "a flag of 0 or 1"),
    ):
        bad = before.copy()
        bad[at_byte] = value
        with pytest.raises(DamagedState, match=message):
            env.set_state(bad)
    np.testing.assert_array_equal(env.get_state(), before)


def test_nothing_works_before_the_first_reset():
    env = ChainMDPEnv(render_mode="ansi")
    for call in (lambda: env.step(0), env.get_state, env.render):
        with pytest.raises(ResetNeeded, match=r"call reset\(\) first"):
            call()


@pytest.mark.parametrize("action", [-1, 2, 1.0, None])
def test_bad_actions_are_refused(action):
    with pytest.raises(InvalidAction, match=r"in \[0, 2\); got"):
        at(0).step(action)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, r"n must be in \[1, .*got 0"),
        ({"p": 1.5}, r"in \[0, 1\]; got 1.5"),
        ({"p": float("nan")}, "p must be a finite number; got nan"),
        ({"render_mode": "human"}, "None or 'ansi'; got 'human'"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ChainMDPEnv(**arguments)

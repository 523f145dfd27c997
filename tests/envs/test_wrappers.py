"""Wrappers for planning: noise on actions, and kept transitions."""

from __future__ import annotations

import functools

import gymnasium
import numpy as np
import pytest

import plangym_ext
from plangym_ext import errors
from plangym_ext.envs import ActionNoise, OctomazeEnv, StateCaching
from plangym_ext.planners import GraphSearch, play


def noisy(name="CartPole-v1", **options):
    return ActionNoise(gymnasium.make(name), **options)


@pytest.mark.parametrize(
    "make",
    [
        functools.partial(noisy, probability=0.5),
        functools.partial(noisy, "Pendulum-v1", std=0.3),
        functools.partial(StateCaching, functools.partial(gymnasium.make, "FrozenLake-v1")),
    ],
)
def test_states_are_exact(make):
    with plangym_ext.GymEnv(make) as env:
        report = plangym_ext.check_env(env, num_steps=30)
        assert report.exact, report


def test_noise_has_its_probability():
    env = ActionNoise(OctomazeEnv(4, 5), 0.5)
    env.reset(seed=0)
    first = []
    for _ in range(2000):
        env.reset()
        env.step(1)
        first.append(int(env.unwrapped.state["corridor"]))
    # The own one in 5/8 of all steps: deviation 22.
    counts = np.bincount(first, minlength=4)
    assert abs(counts[1] - 1250) < 4 * 22
    assert (abs(counts[[0, 2, 3]] - 250) < 4 * 15).all()


def test_noise_on_integers_is_rounded():
    class Integers(gymnasium.Env):
        observation_space = gymnasium.spaces.Discrete(1)
        action_space = gymnasium.spaces.Box(-9, 9, (1000,), np.int64)

        def step(self, action):
            return action, 0.0, False, False, {}

    # Cut to integers, it would be 4.5 on average.
    stepped = ActionNoise(Integers(), std=1.0).step(np.full(1000, 5))[0]
    assert stepped.dtype == np.int64
    assert abs(stepped.mean() - 5) < 0.15


def test_what_does_not_apply_is_refused():
    with pytest.raises(errors.InvalidOption, match=r"got probability=0.1, std=0.0 for Box"):
        noisy("Pendulum-v1", probability=0.1)
    with pytest.raises(errors.InvalidOption, match=r"got probability=2, std=0.0 for Discrete"):
        noisy(probability=2)


def test_known_transitions_take_no_step(monkeypatch):
    env = StateCaching(functools.partial(OctomazeEnv, 3, 4), capacity=3)
    stepped, step = [], env._env.step
    monkeypatch.setattr(env._env, "step", lambda *args: stepped.append(args) or step(*args))
    begin, start = env.reset(seed=0), env.get_state()
    way = [env.step(1) for _ in range(3)]
    assert (env.hits, env.misses, len(stepped)) == (0, 3, 3)
    env.set_state(start)
    again = [env.step(1) for _ in range(3)]
    assert (env.hits, len(stepped)) == (3, 3)
    np.testing.assert_equal(again, way)
    again[0][0][:] = 7.0  # fresh
    env.set_state(start)
    np.testing.assert_equal(env.step(1), way[0])
    env.set_state(start)
    env.step(2)  # of three the one unused for longest goes
    env.set_state(start)
    env.step(1)
    assert (env.hits, env.misses) == (5, 4)
    with pytest.raises(errors.DamagedState, match=r"expected \[S\] uint8"):
        env.set_state(start[None])
    np.testing.assert_equal(env.reset(seed=0), begin)


def test_actions_of_several_parts_are_told_apart():
    class Two(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(0, 9, (1,))
        action_space = gymnasium.spaces.Dict(a=gymnasium.spaces.Discrete(3))

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return np.zeros(1, np.float32), {}

        def step(self, action):
            return np.zeros(1, np.float32), float(action["a"]), False, False, {}

    env = StateCaching(Two)
    env.reset(seed=0)
    # Each in its own dict, which may lie where the one before it lay.
    assert [env.step({"a": k % 3})[1] for k in range(30)] == [0.0, 1.0, 2.0] * 10
    assert env.misses == 3


def test_a_search_goes_through_it():
    with plangym_ext.GymEnv(lambda: StateCaching(functools.partial(OctomazeEnv, 3, 3))) as env:
        planner = GraphSearch(20, state_key="obs", rollout_depth=0)
        assert play(env, planner, seed=0, max_steps=20).return_ == 1.0
        assert env.gym_env.unwrapped.hits > 0

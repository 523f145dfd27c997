"""Functions and classes in attributes: state where an env puts another one in their place."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import plangym_ext
from plangym_ext.states.layer_attributes import is_same


def plus(total, action):
    return total + action


def minus(total, action):
    return total - action


class Adds:
    sign = 1


class Subtracts:
    sign = -1


class Rules(gym.Env):
    """Counts by a rule and a class that change from the twelfth step on: after any trial."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = gym.spaces.Discrete(3)

    def __init__(self):
        self.rule, self.kind = plus, Adds

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count, self.total = 0, 0
        self.rule, self.kind = plus, Adds
        self.factor = self.made(2)
        return self.obs(), {}

    @staticmethod
    def made(number):
        return lambda total: total * number

    def step(self, action):
        self.count += 1
        self.total = self.rule(self.total, int(action) * self.kind.sign)
        self.change()
        return self.obs(), float(self.factor(self.total)), self.count >= 40, False, {}

    def change(self):
        if self.count == 12:
            self.rule, self.late = minus, minus
        if self.count == 20:
            self.kind, self.rule = Subtracts, plus

    def obs(self):
        return np.array([float(self.total)])


class MakesAnew(Rules):
    """Makes its factor anew in each step, of the same number."""

    def change(self):
        super().change()
        self.factor = self.made(2)


class Lambdas(Rules):
    """Comes to another factor, which has no name: it is pickled."""

    def change(self):
        if self.count == 12:
            self.factor = self.made(3)


def played(env, actions):
    env.reset(seed=0)
    return [env.step(int(action))[:3] for action in actions]


@pytest.mark.parametrize("kind", [Rules, MakesAnew, Lambdas])
@pytest.mark.parametrize("backend", ["serial", "process"])
def test_what_is_put_in_the_place_of_a_function_is_state(kind, backend):
    actions = np.random.default_rng(0).integers(1, 3, 40)
    expected = played(kind(), actions)
    with plangym_ext.make(kind, capture="snapshot", backend=backend) as env:
        first, _, _ = env.reset(seed=0)
        states = [first]
        for action, (obs, reward, terminated) in zip(actions, expected, strict=True):
            out = env.step_batch(np.array([action]), states=states[-1][None])
            np.testing.assert_array_equal(out.obs[0], obs)
            assert (out.rewards[0], out.terminateds[0]) == (reward, terminated)
            states.append(out.states[0])
        # Backwards, so that each has to be taken back.
        for number in range(39, -1, -1):
            out = env.step_batch(actions[number : number + 1], states=states[number][None])
            np.testing.assert_array_equal(out.obs[0], expected[number][0])
            assert out.rewards[0] == expected[number][1]


@pytest.mark.parametrize("backend", ["serial", "process"])
def test_states_of_a_vector_env_hold_it_too(backend):
    actions = np.random.default_rng(1).integers(1, 3, (40, 2))
    with plangym_ext.make_vec(Rules, num_envs=2, backend=backend) as venv:
        venv.reset(seed=0)
        for row in actions[:15]:
            venv.step(row)
        kept = venv.get_states()
        first = [venv.step(row)[:2] for row in actions[15:]]
        venv.set_states(kept)
        for (obs, rewards), row in zip(first, actions[15:], strict=True):
            again = venv.step(row)
            np.testing.assert_array_equal(again[0], obs)
            np.testing.assert_array_equal(again[1], rewards)


def test_functions_of_one_line_and_equal_values_are_the_same():
    def made(value, other=1):
        def inner(x, y=other):
            return inner if x else (value, y)

        return inner

    assert is_same(made(1), made(1))
    assert is_same(made((1, "a")), made((1, "a")))
    assert not is_same(made(1), made(2))
    assert not is_same(made(1), made(1, other=2))
    assert not is_same(made(1), made(True))
    # Two lists may become different ones.
    assert not is_same(made([1]), made([1]))
    assert not is_same(made(1), plus)
    assert not is_same(Adds, Subtracts)
    assert is_same(len, len)
    assert not is_same(len, None)

"""Observations and rewards that are none: what a vector env does about them."""

from __future__ import annotations

import functools

import gymnasium as gym
import numpy as np
import pytest

import plangym_ext
from plangym_ext.errors import InvalidObservation, UnknownName

every_backend = pytest.mark.parametrize(
    "options", [{"backend": "serial"}, {"n_workers": 2}], ids=["serial", "workers"]
)


#: What is wrong with what a sub-env shows after an action; 0 is right.
WRONG = ("", "nan", "bound", "reward", "dtype", "shape", "final", "far", "whole")


class Odd(gym.Env):
    """Shows what an action says: see `WRONG`."""

    observation_space = gym.spaces.Box(0, 9, (2,), np.float32)
    action_space = gym.spaces.Discrete(len(WRONG))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.t += 1
        obs, reward, ended = np.full(2, self.t, np.float32), 1.0, False
        if action:
            wrong = WRONG[action]
            if wrong == "reward":
                reward = float("nan")
            elif wrong == "final":
                obs, ended = np.full(2, np.nan, np.float32), True
            else:
                obs = {
                    "nan": np.array([0, np.nan], np.float32),
                    "bound": np.array([np.inf, 0], np.float32),
                    "dtype": np.zeros(2, np.float64),
                    "shape": np.zeros(3, np.float32),
                    "far": np.array([0, 9.5], np.float32),
                    "whole": np.array([self.t, self.t]),
                }[wrong]
        return obs, reward, ended, False, {}


def odd(num=3, **options):
    return plangym_ext.make_vec(Odd, num, check=False, **options)


def last(wrong):
    """Actions of three sub-envs, of which the last one goes wrong."""
    return np.array([0, 0, WRONG.index(wrong)])


@pytest.fixture(scope="module", params=[{"backend": "serial"}, {"n_workers": 2}], ids=str)
def strict(request):
    with odd(**request.param) as venv:
        yield venv


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ("nan", r"sub-env 2: observation: .*got nan at index \(1,\)"),
        ("bound", r"sub-env 2: observation: .*got inf at index \(0,\)"),
        ("reward", r"sub-env 2: reward: expected a number; got nan"),
        ("dtype", r"expected \(2,\) float32 as in its space; got \(2,\) float64"),
        ("shape", r"expected \(2,\) float32 as in its space; got \(3,\)"),
    ],
)
def test_wrong_values_are_refused_and_undone(strict, wrong, text):
    strict.reset(seed=0)
    strict.step(np.zeros(3, int))
    with pytest.raises(InvalidObservation, match=text):
        strict.step(last(wrong))
    assert strict.step(np.zeros(3, int))[0][:, 0].tolist() == [2, 2, 2]


@every_backend
def test_what_an_episode_ends_with_is_looked_at_too(options):
    with odd(autoreset_mode="same_step", **options) as venv:
        venv.reset(seed=0)
        with pytest.raises(InvalidObservation, match="sub-env 2: observation"):
            venv.step(last("final"))


@every_backend
def test_wrong_values_can_be_marked(options):
    with odd(invalid="mark", **options) as venv:
        for wrong in ("nan", "reward"):
            venv.reset(seed=0)
            *_, infos = venv.step(last(wrong))
            assert infos["invalid"].tolist() == [False, False, True]
            assert infos["_invalid"].tolist() == [True] * 3


@every_backend
def test_wrong_values_can_pass(options):
    with odd(invalid="off", **options) as venv:
        venv.reset(seed=0)
        assert np.isnan(venv.step(last("nan"))[0][2, 1])
        assert venv.step(last("dtype"))[0].dtype == np.float32


@every_backend
def test_finite_numbers_out_of_bounds_are_refused_on_demand(options):
    with odd(**options) as venv, odd(invalid="strict", **options) as strict:
        for one in (venv, strict):
            one.reset(seed=0)
        assert venv.step(last("far"))[0][2, 1] == 9.5
        text = r"sub-env 2: observation: .*got 9\.5 at index \(1,\)\..*invalid='raise'"
        with pytest.raises(InvalidObservation, match=text):
            strict.step(last("far"))
        for wrong in ("nan", "bound", "reward"):
            with pytest.raises(InvalidObservation, match="sub-env 2"):
                strict.step(last(wrong))
        assert strict.step(np.zeros(3, int))[0][:, 0].tolist() == [1, 1, 1]


@every_backend
def test_whole_numbers_that_a_float_holds_are_taken_as_upstream(options):
    theirs = gym.vector.SyncVectorEnv([Odd] * 3)
    with odd(**options) as venv:
        for one in (venv, theirs):
            one.reset(seed=0)
        found = venv.step(last("whole"))[0]
        np.testing.assert_array_equal(found, theirs.step(last("whole"))[0])
        assert found.dtype == np.float32


def test_an_unknown_policy_is_refused():
    with pytest.raises(UnknownName, match="invalid must be one of raise, mark, off, strict"):
        odd(invalid="refuse")


NO_REWARDS = (None, "much", [1.0], np.zeros(2), 1j)


class Rewarding(Odd):
    """Gives one reward, whatever that is; by default the one that an action says."""

    def __init__(self, reward=...):
        self.reward = reward

    def step(self, action):
        obs, _, *rest = super().step(0)
        return obs, NO_REWARDS[action] if self.reward is ... else self.reward, *rest


@every_backend
def test_a_reward_that_is_no_number_is_refused_by_name(options):
    with plangym_ext.make_vec(Rewarding, 2, capture="off", invalid="off", **options) as venv:
        for action in range(len(NO_REWARDS)):
            venv.reset(seed=0)
            with pytest.raises(InvalidObservation, match="reward: expected one number") as raised:
                venv.step([action, action])
            assert "in row 0" in "".join(raised.value.__notes__)


@pytest.mark.parametrize(
    "reward", [np.float32(2), np.array(2), True], ids=["float32", "0-d", "bool"]
)
def test_rewards_of_every_numeric_kind_are_what_upstream_makes_of_them(reward):
    make = functools.partial(Rewarding, reward)
    theirs = gym.vector.SyncVectorEnv([make] * 2)
    with plangym_ext.make_vec(make, 2, capture="off") as venv:
        for envs in (venv, theirs):
            envs.reset(seed=0)
        np.testing.assert_array_equal(venv.step([0, 0])[1], theirs.step([0, 0])[1])

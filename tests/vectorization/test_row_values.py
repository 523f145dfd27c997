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


class Odd(gym.Env):
    """Shows what an action says: see `WRONG`."""

    observation_space = gym.spaces.Box(0, 9, (2,), np.float32)

    def __init__(self, wrong):
        self.action_space = gym.spaces.Discrete(2)
        self.wrong = wrong

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.t += 1
        obs, reward, ended = np.full(2, self.t, np.float32), 1.0, False
        if action:
            if self.wrong == "reward":
                reward = float("nan")
            elif self.wrong == "final":
                obs, ended = np.full(2, np.nan, np.float32), True
            else:
                obs = {
                    "nan": np.array([0, np.nan], np.float32),
                    "bound": np.array([np.inf, 0], np.float32),
                    "dtype": np.zeros(2, np.float64),
                    "shape": np.zeros(3, np.float32),
                }[self.wrong]
        return obs, reward, ended, False, {}


def odd(wrong, num=3, **options):
    return plangym_ext.make_vec(functools.partial(Odd, wrong), num, check=False, **options)


@every_backend
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
def test_wrong_values_are_refused_and_undone(options, wrong, text):
    with odd(wrong, **options) as venv:
        venv.reset(seed=0)
        venv.step(np.zeros(3, int))
        with pytest.raises(InvalidObservation, match=text):
            venv.step(np.array([0, 0, 1]))
        assert venv.step(np.zeros(3, int))[0][:, 0].tolist() == [2, 2, 2]


@every_backend
def test_what_an_episode_ends_with_is_looked_at_too(options):
    with odd("final", autoreset_mode="same_step", **options) as venv:
        venv.reset(seed=0)
        with pytest.raises(InvalidObservation, match="sub-env 1: observation"):
            venv.step(np.array([0, 1, 0]))


@every_backend
@pytest.mark.parametrize("wrong", ["nan", "reward"])
def test_wrong_values_can_be_marked(options, wrong):
    with odd(wrong, invalid="mark", **options) as venv:
        venv.reset(seed=0)
        *_, infos = venv.step(np.array([0, 0, 1]))
        assert infos["invalid"].tolist() == [False, False, True]
        assert infos["_invalid"].tolist() == [True] * 3


@every_backend
def test_wrong_values_can_pass(options):
    with odd("nan", invalid="off", **options) as venv:
        venv.reset(seed=0)
        assert np.isnan(venv.step(np.array([0, 0, 1]))[0][2, 1])
    with odd("dtype", invalid="off", **options) as venv:
        venv.reset(seed=0)
        assert venv.step(np.ones(3, int))[0].dtype == np.float32


def test_an_unknown_policy_is_refused():
    with pytest.raises(UnknownName, match="invalid must be one of raise, mark, off"):
        odd("nan", invalid="refuse")


class Rewarding(Odd):
    """Gives one reward, whatever that is."""

    def __init__(self, reward):
        super().__init__("")
        self.reward = reward

    def step(self, action):
        obs, _, *rest = super().step(0)
        return obs, self.reward, *rest


@every_backend
@pytest.mark.parametrize(
    "reward",
    [None, "much", [1.0], np.zeros(2), 1j],
    ids=["none", "text", "list", "array", "complex"],
)
def test_a_reward_that_is_no_number_is_refused_by_name(reward, options):
    make = functools.partial(Rewarding, reward)
    with plangym_ext.make_vec(make, 2, state="off", invalid="off", **options) as venv:
        venv.reset(seed=0)
        with pytest.raises(InvalidObservation, match="reward: expected one number") as raised:
            venv.step([0, 0])
        assert "in row 0" in "".join(raised.value.__notes__)


@pytest.mark.parametrize(
    "reward", [np.float32(2), np.array(2), True], ids=["float32", "0-d", "bool"]
)
def test_rewards_of_every_numeric_kind_are_what_upstream_makes_of_them(reward):
    make = functools.partial(Rewarding, reward)
    theirs = gym.vector.SyncVectorEnv([make] * 2)
    with plangym_ext.make_vec(make, 2, state="off") as venv:
        for envs in (venv, theirs):
            envs.reset(seed=0)
        np.testing.assert_array_equal(venv.step([0, 0])[1], theirs.step([0, 0])[1])

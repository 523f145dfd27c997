"""A fault of the library in one way of capturing states is told, though another way works."""

from __future__ import annotations

import warnings

import gymnasium as gym
import numpy as np
import pytest

import plangym_ext
from plangym_ext.states.snapshot import SnapshotPart


def env_class():
    class Counts(gym.Env):
        observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
        action_space = gym.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.t = 0
            return np.zeros(1), {}

        def step(self, action):
            self.t += 1
            return np.full(1, float(self.t)), 0.0, self.t == 9, False, {}

    return Counts


class Stubborn:
    """An attribute whose own code raises where it is captured."""

    def __reduce_ex__(self, protocol):
        return {}["nothing"]

    def __getstate__(self):
        return {}["nothing"]


def test_a_fault_of_the_library_is_told(monkeypatch):
    monkeypatch.delattr(SnapshotPart, "_checked")
    told = r"snapshot: a fault of plangym_ext.*AttributeError.*plangym_ext\.states\.snapshot:\d+"
    with (
        pytest.warns(UserWarning, match=rf"{told}.*'replay' is taken instead"),
        plangym_ext.make(env_class(), n_workers=0) as env,
    ):
        assert env.exactness.method == "replay"


def test_an_error_of_the_env_is_none_of_the_library():
    class Holds(env_class()):
        def reset(self, *, seed=None, options=None):
            self.held = Stubborn()
            return super().reset(seed=seed)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with plangym_ext.make(Holds, n_workers=0) as env:
            assert env.exactness.method in ("snapshot", "replay")

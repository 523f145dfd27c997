"""What a copy would break is left to the next way: handles that are freed, sets of objects."""

import gymnasium as gym
import numpy as np
import pytest

from plangym_ext import make
from plangym_ext.errors import IncompleteState

_open: set[int] = set()


class Handle:
    """A handle of a library: its number is given back when the object goes."""

    def __init__(self):
        self.number = max(_open, default=0) + 1
        _open.add(self.number)

    def __del__(self):
        _open.discard(self.number)


class Piece:
    """Known by its address, as most objects are."""


class Owning(gym.Env):
    """Goes on only while its handle is open."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def __init__(self):
        self.handle = Handle()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return np.zeros(1), {}

    def step(self, action):
        assert self.handle.number in _open
        self.at += 1 + int(action)
        return np.full(1, float(self.at)), 0.0, False, False, {}


class Sets(Owning):
    """Runs through a set of objects that nothing orders."""

    def __init__(self):
        super().__init__()
        self.handle = {Piece(), Piece()}

    def step(self, action):
        self.at += 1
        return np.full(1, float(self.at)), 0.0, False, False, {}


def test_objects_with_finalisers_are_left_to_replay():
    with make(Owning, backend="serial") as env:
        assert env.codec.method == "replay"
        state, _, _ = env.reset(seed=0)
        assert env.step(1).obs == 2.0
        env.set_state(state)
        assert env.step(0).obs == 1.0


@pytest.mark.parametrize(("kind", "reason"), [(Owning, "__del__"), (Sets, "Piece")])
def test_the_reason_names_what_it_is(kind, reason):
    with pytest.raises(IncompleteState, match=reason):
        make(kind, backend="serial", capture="snapshot")


def test_sets_of_objects_are_not_pickled():
    with make(Sets, backend="serial") as env:
        assert env.codec.method == "replay"

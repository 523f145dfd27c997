"""The way proved for one env is not taken for another one of its class with other spaces."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import plangym_ext
from plangym_ext.errors import WrongKind
from plangym_ext.states.trials.choice import prove

PAIR = spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)])
GRAPHS = spaces.Tuple([spaces.Graph(spaces.Box(-1.0, 1.0, (2,)), None), spaces.Discrete(3)])


class Any(gym.Env):
    """Takes actions of any space, and counts them."""

    observation_space = spaces.Box(0, 1e6, (1,), np.float64)

    def __init__(self, space):
        self.action_space = space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0.0
        return np.zeros(1), {}

    def step(self, action):
        self.count += 1.0
        return np.array([self.count]), 0.0, False, False, {}


def test_a_replay_is_not_taken_where_actions_have_no_fixed_form():
    assert prove(Any(PAIR), "replay", check=True, trusted=False).method == "replay"
    with pytest.raises(WrongKind, match="no fixed-size"):
        prove(Any(GRAPHS), "replay", check=True, trusted=False)
    with plangym_ext.make_vec(lambda: Any(GRAPHS), 2) as venv:
        venv.reset(seed=0)
        assert venv.step(venv.action_space.sample())[0].tolist() == [[1.0], [1.0]]

"""A task whose values are known, and what tests of algorithms with a replay share."""

from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from plangym_ext.learn import SerialSampler


class Corridor(gym.Env):
    """Three steps of reward 1, then the end: the state, or the time, is over."""

    observation_space = spaces.Discrete(3)
    action_space = spaces.Discrete(2, start=5)

    def __init__(self, *, terminates):
        self.terminates = terminates

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return 0, {}

    def step(self, action):
        self.count += 1
        over = self.count == 3
        # Without an end one would stand in the first place again.
        place = self.count % 3
        return place, 1.0, over and self.terminates, over and not self.terminates, {}


def rounds(sampler, agent, algorithm, count):
    """Collect and learn so many times; return what was logged last."""
    found = {}
    for _ in range(count):
        algorithm.prepare(agent)
        algorithm.take(sampler.collect(version=algorithm.updates))
        found = algorithm.train()
    return found


def same(one, other):
    """Compare nested states, bit for bit."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for name in one:
            same(one[name], other[name])
    elif hasattr(one, "cpu"):
        same(one.cpu().numpy(), other.cpu().numpy())
    elif hasattr(one, "__array__"):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
    else:
        assert one == other


def goes_on_bit_for_bit(begin, *, whole, before, least):
    """Compare what was learned in `whole` rounds with a run that was saved after `before`.

    `begin()` returns a vector env, an agent and an algorithm; more than `least` updates are made.
    """

    def run(saved, count):
        venv, agent, algorithm = begin()
        with SerialSampler(venv, agent, 5, seed=1) as sampler:
            if saved is not None:
                algorithm.load_state_dict(saved[0])
                sampler.load_state_dict(saved[1])
            rounds(sampler, agent, algorithm, count)
            return copy.deepcopy((algorithm.state_dict(), sampler.state_dict()))

    (unbroken, _), halfway = run(None, whole), run(None, before)
    resumed, _ = run(halfway, whole - before)
    assert unbroken["trainer"]["updates"] == resumed["trainer"]["updates"] > least
    same(unbroken, resumed)

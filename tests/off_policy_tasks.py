"""A task whose values are known, and what tests of algorithms with a replay share."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from gymnasium import spaces


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
    elif hasattr(one, "__array__"):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
    else:
        assert one == other

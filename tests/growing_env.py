"""An env whose state grows with every step."""

from __future__ import annotations

import gymnasium as gym
import numpy as np


class Growing(gym.Env):
    """Remembers everything it ever saw, so that its state outgrows any row."""

    observation_space = gym.spaces.Box(-1e6, 1e6, (2,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seen = []
        self.total = 0.0
        return np.zeros(2), {}

    def step(self, action):
        self.total += float(self.np_random.random()) + int(action)
        self.seen.append(b"x" * 400)
        return np.array([self.total, len(self.seen)]), self.total, False, False, {}

"""Small envs whose observations have a variable number of items."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Dearest(gym.Env):
    """Shows 1 to 7 items, each a kind and a price; the kind of the dearest is to be named.

    Every step pays 1 or 0, so that the best policy's return is 8, and that of chance 8 / 3.
    """

    observation_space = spaces.Sequence(spaces.Box(0.0, 1.0, (4,), np.float32))
    action_space = spaces.Discrete(3)

    def _seen(self):
        count = int(self.np_random.integers(1, 8))
        kinds, prices = self.np_random.integers(0, 3, count), self.np_random.random(count)
        self.best = int(kinds[prices.argmax()])
        rows = np.concatenate([np.eye(3)[kinds], prices[:, None]], axis=1)
        return tuple(rows.astype(np.float32))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._seen(), {}

    def step(self, action):
        reward, self.t = float(action == self.best), self.t + 1
        return self._seen(), reward, self.t == 8, False, {}


class Mixed(gym.Env):
    """A graph, a sequence that may be empty, a point cloud and a number; episodes are 3 or 4."""

    observation_space = spaces.Dict(
        graph=spaces.Graph(spaces.Box(-1.0, 1.0, (2,), np.float32), spaces.Discrete(3)),
        cloud=spaces.Tuple([spaces.Graph(spaces.Box(-1.0, 1.0, (3,), np.float32), None)]),
        number=spaces.Box(0.0, 99.0, (1,), np.float32),
        words=spaces.Sequence(spaces.Discrete(5), stack=True),
    )
    action_space = spaces.Discrete(2)

    def _seen(self):
        draw = self.np_random
        count = int(draw.integers(1, 5))
        links = draw.integers(0, count, (int(draw.integers(0, 4)), 2))
        graph = spaces.GraphInstance(
            draw.random((count, 2)).astype(np.float32), draw.integers(0, 3, len(links)), links
        )
        cloud = spaces.GraphInstance(draw.random((count, 3)).astype(np.float32), None, None)
        words = draw.integers(0, 5, int(draw.integers(0, 3)))
        number = np.array([self.t], np.float32)
        return {"graph": graph, "cloud": (cloud,), "number": number, "words": words}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.end = 0, 3 + int(self.np_random.integers(2))
        return self._seen(), {}

    def step(self, action):
        self.t += 1
        over = self.t == self.end
        return self._seen(), float(action), over and self.end == 3, over and self.end == 4, {}

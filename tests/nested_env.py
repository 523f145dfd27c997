"""An env with nested spaces and infos of many kinds, and its codec."""

from __future__ import annotations

import struct

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

from plangym_ext.states.families import Family, register_family
from plangym_ext.states.part import StatePart
from plangym_ext.states.randomness.rng import RNG_BYTES, GeneratorBytes


class Nested(gym.Env):
    """Env with nested spaces; its state is one integer and a generator.

    Observations, rewards and infos are functions of them, easy to work out by hand.
    """

    def __init__(self):
        self.observation_space = spaces.Dict(
            {
                "count": spaces.Discrete(1_000_000),
                "pair": spaces.Tuple(
                    [
                        spaces.Box(-np.inf, np.inf, (2, 3), np.float32),
                        spaces.MultiBinary(4),
                    ]
                ),
            }
        )
        self.action_space = spaces.Tuple(
            [spaces.Discrete(3, start=-1), spaces.Box(-1.0, 1.0, (2,), np.float32)]
        )
        self.count = 0

    def _outcome(self):
        bits = np.array([self.count >> k & 1 for k in range(4)], np.int8)
        box = np.full((2, 3), self.count / 8, np.float32)
        return {"count": self.count, "pair": (box, bits)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.count = int(self.np_random.integers(0, 4))
        return self._outcome(), {}

    def step(self, action):
        step, push = action
        noise = self.np_random.random()
        self.count += int(step) + 2
        info = {
            "count": self.count,
            "even": self.count % 2 == 0,
            "noise": noise,
            "push": np.array(push),
            "label": f"at {self.count}",
        }
        if self.count % 5 == 0:
            info["fifth"] = self.count // 5  # a key that not every step has
        return self._outcome(), noise + float(push[0]), self.count > 40, False, info


def limited_nested():
    """Return a `Nested` that is truncated after 12 steps."""
    return TimeLimit(Nested(), 12)


class NestedPart(StatePart):
    """Codec of `Nested`."""

    def __init__(self, env):
        self._env = env
        self._rng = GeneratorBytes()
        self.width = 8 + RNG_BYTES

    def capture(self, buffer, offset, end):
        struct.pack_into("<q", buffer, offset, self._env.count)
        return self._rng.capture(self._env.np_random, buffer, offset + 8)

    def restore(self, buffer, offset):
        (self._env.count,) = struct.unpack_from("<q", buffer, offset)
        return self._rng.restore(self._env.np_random, buffer, offset + 8)


register_family(Family("nested", __name__, NestedPart))

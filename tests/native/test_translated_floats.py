"""Compiled floats that are rare: quotients beyond 64 bits, bounds of zero, NaN among bounds."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import plangym_ext

VALUES = np.array(
    [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.1, 0.3, -1.3, 1e6, -1e6, 123456.789, -4.35, 1e-300]
)


class Floats(gymnasium.Env):
    """Applies one function to pairs of numbers."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = spaces.Discrete(3)

    def __init__(self):
        self.begun, self.count = 0, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.begun, self.count = (self.begun + 1) % 15, 0
        return np.zeros(2), {}

    def step(self, action):
        self.count += 1
        x, y = VALUES[self.count % 15], VALUES[(self.count * 7 + self.begun + action) % 15]
        return self.of(x, y), 0.0, self.count >= 30, False, {}


class Quotients(Floats):
    def of(self, x, y):
        return np.array([x // y if y != 0.0 else 0.0, float(x) // 0.3])


class Clipped(Floats):
    def of(self, x, y):
        return np.array([np.clip(x, -1.4, y), np.clip(x, y, 0.0)])


class ClippedArrays(Floats):
    def of(self, x, y):
        pair, bounds = np.array([x, y]), np.array([y, 0.0])
        return np.clip(pair, -0.5, y) + np.clip(pair, np.float32(-0.3), bounds)


class ClippedSingles(Floats):
    def of(self, x, y):
        one = np.clip(np.float32(x), np.float32(-0.0), np.float32(y))
        return np.array([one, np.clip(np.float32(y), -1.5, np.float64(x))], np.float64)


@pytest.mark.slow
@pytest.mark.parametrize("cls", [Quotients, Clipped, ClippedArrays, ClippedSingles])
def test_rare_floats_are_the_envs(cls):
    # The comparison is of bits: -0.0 and 0.0 differ.
    assert issubclass(plangym_ext.compile_env(cls, steps=2_000), cls)

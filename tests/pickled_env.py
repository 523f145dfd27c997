"""Envs whose state is not plain; their module can be imported by workers, for pickle."""

from __future__ import annotations

import gymnasium as gym
import numpy as np


class Slotted(set):
    """Only a pickle takes it."""

    __slots__ = ("at",)

    def __init__(self, items=()):
        super().__init__(items)
        self.at = 0


class PickledEnv(gym.Env):
    """Keeps its count where no object graph reaches it."""

    observation_space = gym.spaces.Box(0.0, np.inf, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.held = Slotted()
        return np.zeros(1), {}

    def step(self, action):
        self.held.at += int(action) + 1
        return np.full(1, float(self.held.at)), float(self.np_random.random()), False, False, {}


class Thing:
    def __init__(self):
        self.at = 0


class ObjectEnv(PickledEnv):
    """The same with an object that a graph takes."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.held = Thing()
        return np.zeros(1), {}

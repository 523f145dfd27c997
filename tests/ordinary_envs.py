"""Three own envs with ordinary imports, whose modules lead to much that could do harm."""

from __future__ import annotations

import enum
import logging
import os
import pathlib
import random
import subprocess
import tempfile

import gymnasium as gym
import numpy as np

LOG = logging.getLogger(__name__)


class Heading(enum.Enum):
    LEFT = -1
    RIGHT = 1


class Grid:
    def __init__(self):
        self.cells = [0] * 9

    def sum(self):
        return sum(self.cells)


class Key:
    """Comes later than the first state."""

    def __init__(self, color):
        self.color = color


class Journal:
    """Would write where data says, when it is thrown away."""

    def __init__(self, path):
        self.path = path

    def __del__(self):
        if self.path:
            pathlib.Path(self.path).write_text("written by a finaliser")


class Proxy:
    """Runs what data says when an attribute is missing."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return subprocess.run(self.command, check=True)


class Position:
    """Runs code when it becomes a key."""

    hashed = 0

    def __init__(self, x):
        self.x = x

    def __hash__(self):
        Position.hashed += 1
        return hash(self.x)

    def __eq__(self, other):
        return self.x == other.x


class Maze(gym.Env):
    """Imports random, gymnasium and numpy alone would do for it."""

    observation_space = gym.spaces.Box(-9, 99, (9,), np.float32)
    action_space = gym.spaces.Discrete(9)

    def __init__(self):
        self.grid = Grid()
        self.heading = {Heading.LEFT: [1, (2.5, "x")]}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.grid, self.items = Grid(), np.zeros((2, 2), np.int16)
        self.luck = np.random.RandomState(random.Random(3).randrange(99))
        return self._obs(), {}

    def _obs(self):
        return np.array(self.grid.cells, np.float32)

    def step(self, action):
        self.grid.cells[action] = int(self.np_random.integers(9))
        self.items[0, 0] += 1
        if action == 8:
            self.grid.key = Key(Heading.RIGHT)
        return self._obs(), float(self.grid.sum()), False, False, {}


class Files(Maze):
    """Keeps a folder, as a path and as text."""

    def __init__(self):
        super().__init__()
        self.folder = os.fspath(pathlib.Path(tempfile.gettempdir()))


class Programs(Maze):
    """Keeps functions: its own, one of another module, and a logger's."""

    def __init__(self):
        super().__init__()
        self.grid.rate = rate

    def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed)
        self.grid.rate = rate
        self.helper = subprocess.run  # constant: no part of a state
        return result


class Foreign(Maze):
    """Keeps a function of another module within its state."""

    def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed)
        self.grid.run = subprocess.run
        return result


class Keyed(Maze):
    """Uses objects with a hash of their own as keys."""

    def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed)
        self.at = {Position(1): 2}
        return result


def rate(cells):
    """Return what one of the envs refers to."""
    return sum(cells)

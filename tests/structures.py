"""Sixty envs that keep their state in objects of different kinds, each in another container."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections import OrderedDict, deque

import gymnasium as gym
import numpy as np


class Piece:
    def __init__(self, cells):
        self.cells = cells


class Heir(Piece):
    """Its class has a method, a property and a class in it."""

    class Part:
        pass

    kind = Part

    def moved(self):
        return self.cells

    @property
    def width(self):
        return len(self.cells)

    @functools.cached_property
    def total(self):
        return sum(self.cells)


@dataclasses.dataclass
class Record:
    cells: list
    name: str = "record"


@dataclasses.dataclass(frozen=True)
class Frozen:
    cells: tuple


class Side(enum.Enum):
    LEFT = 1
    RIGHT = 2


class Tree:
    def __init__(self, cells):
        self.left, self.side, self.up = Piece(cells), Side.LEFT, self
        self.luck = np.random.default_rng(1)


class Bag:
    """Makes attributes of what it is given."""

    def __init__(self, cells):
        self.cells = cells
        self.more = {"a": 1}

    def moved(self):
        vars(self).update(self.more)


class Method:
    def __init__(self, cells):
        self.cells, self.at = cells, 0
        self.call = self.moved

    def moved(self):
        self.at += 1


OBJECTS = (
    Piece,
    Heir,
    Record,
    lambda cells: Frozen(tuple(cells)),
    Tree,
    Bag,
    Method,
    lambda cells: cells,
    lambda cells: np.array(cells),
    lambda cells: {"cells": cells, 1: Piece(cells)},
)
CONTAINERS = {
    "held": lambda made: made,
    "list": lambda made: [made, made],
    "dict": lambda made: {"one": made, (1, 2): [made]},
    "ordered": lambda made: OrderedDict(one=made),
    "deque": lambda made: deque([made], maxlen=3),
    "nested": lambda made: Piece([Piece({"deep": (made, None)})]),
}


class Structured(gym.Env):
    """One of them; a step asks numpy, and the objects themselves, for what they hold."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (9,), np.float64)
    action_space = gym.spaces.Discrete(9)

    def __init__(self, number: int, container: str) -> None:
        self._number, self._container = number, container

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.board = OBJECTS[self._number]([0.0] * 9)
        self.whole = CONTAINERS[self._container](self.board)
        return self._obs(), {}

    def _obs(self):
        cells = getattr(getattr(self.board, "left", self.board), "cells", self.board)
        cells = cells["cells"] if isinstance(cells, dict) else cells
        return np.array(np.asarray(cells), np.float64)

    def step(self, action):
        if hasattr(self.board, "moved"):
            self.board.moved()
        obs = self._obs()
        obs[action] += 1
        return obs, float(self.np_random.random()), False, False, {}


def structures():
    """Return the arguments of all of them."""
    return [(number, container) for number in range(len(OBJECTS)) for container in CONTAINERS]

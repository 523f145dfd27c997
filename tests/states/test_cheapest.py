"""Of several exact ways the one whose rows cost least is taken, where that is worth it."""

from __future__ import annotations

import copy
import time

import gymnasium as gym
import numpy as np
import pytest
from growing_env import Growing

import plangym_ext
from plangym_ext.states.trials import choice
from plangym_ext.states.trials.round_trip import Trip


def spend(seconds):
    begun = time.perf_counter()
    while time.perf_counter() - begun < seconds:
        pass


class Painted(gym.Env):
    """Draws on a large canvas in each step; episodes are short."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)
    length = 6

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.canvas, self.t = np.zeros(400_000), 0
        return np.zeros(1), {}

    def step(self, action):
        self.t += 1
        self.canvas[self.t] = self.np_random.random() + action
        return self.canvas[self.t : self.t + 1].copy(), 0.0, self.t >= self.length, False, {}


class Long(Painted):
    """The same with long episodes, which take long to play again."""

    length = 100_000

    def step(self, action):
        spend(2e-4)
        return super().step(action)


class Deep(gym.Env):
    """Offers its state itself, as a deep copy of what takes long to copy."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def __init__(self):
        self.rooms = {k: [float(k)] for k in range(3000)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = float(self.np_random.random())
        return self._obs(), {}

    def step(self, action):
        spend(5e-5)
        self.x += float(action) * self.np_random.random()
        return self._obs(), self.x, False, False, {}

    def _obs(self):
        return np.array([self.x])

    def get_state(self):
        return copy.deepcopy((self.x, self.np_random.bit_generator.state, self.rooms))

    def set_state(self, state):
        self.x, self.np_random.bit_generator.state, self.rooms = copy.deepcopy(state)


@pytest.mark.parametrize(
    ("make", "way", "told"),
    [
        (lambda: gym.wrappers.TimeLimit(Painted(), 6), "replay", "by replay, and"),
        (Long, "snapshot", "most is for Long.canvas"),
        (Deep, "snapshot", "by snapshot, and"),
    ],
)
def test_the_way_whose_rows_cost_least_is_taken_and_the_cost_told(make, way, told):
    with plangym_ext.make(make, backend="serial") as env:
        assert env.exactness.method == way, (env.exactness, env.binding.cost, env.backend_note)
        assert told in env.backend_note
        assert env.exactness.transitions > 0


def test_a_way_that_is_named_is_taken_whatever_it_costs():
    with plangym_ext.make(Deep, backend="serial", capture="own") as env:
        assert env.exactness.method == "own"


@pytest.mark.parametrize(("make", "way"), [("CartPole-v1", "codec"), (Growing, "snapshot")])
def test_nothing_more_is_tried_where_the_first_way_is_cheap(monkeypatch, make, way):
    monkeypatch.setattr(choice, "_by_cost", None)
    with plangym_ext.make(make, backend="serial") as env:
        assert env.exactness.method == way
        # Of a state that each proof comes to, however long it plays: these states grow.
        assert env.binding.cost.seconds < choice._CHEAP * choice._WORTH_IT


def test_a_way_that_was_dear_for_a_moment_stays(monkeypatch):
    class Small(Painted):
        def reset(self, *, seed=None, options=None):
            shown = super().reset(seed=seed)
            self.canvas = np.zeros(self.length + 1)
            return shown

    measured = Trip.row_seconds

    def busy(trip):
        # In the proof, and not in the short play that measures it again.
        proof = trip._plan.around and trip._subject.codec.method == "snapshot"
        return 1.0 if proof else measured(trip)

    monkeypatch.setattr(Trip, "row_seconds", busy)
    with plangym_ext.make(Small, backend="serial") as env:
        assert env.binding.cost.seconds == 1.0
        assert env.exactness.method == "snapshot"


def test_a_dear_way_that_is_the_only_exact_one_stays(monkeypatch):
    class Forgetful(Deep):
        """Keeps something that no snapshot holds, and no replay: its own state alone is right."""

        store = {}  # noqa: RUF012

        def reset(self, *, seed=None, options=None):
            Forgetful.store.setdefault("y", 0.0)
            return super().reset(seed=seed)

        def step(self, action):
            Forgetful.store["y"] += 1.0
            obs, _, *rest = super().step(action)
            return obs, Forgetful.store["y"], *rest

        def get_state(self):
            return *super().get_state(), Forgetful.store["y"]

        def set_state(self, state):
            *others, Forgetful.store["y"] = state
            super().set_state(others)

    with plangym_ext.make(Forgetful, backend="serial") as env:
        assert env.exactness.method == "own"

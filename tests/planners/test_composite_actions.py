"""Dict and Tuple actions: played alone and side by side, kept, and recorded as the space nests."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import plangym_ext
from plangym_ext.arrays.nested import leaves, rows_of
from plangym_ext.learn import RandomAgent
from plangym_ext.learn.records import EpisodeRecorder
from plangym_ext.planners import play, visited_states
from plangym_ext.planners.plans import Budget, Plan

SPACES = {
    "dict": spaces.Dict({"a": spaces.Discrete(3), "b": spaces.Box(-1, 1, (2,), np.float32)}),
    "tuple": spaces.Tuple((spaces.Discrete(2), spaces.MultiBinary(2))),
    "nested": spaces.Dict(
        {"x": spaces.Tuple((spaces.Discrete(2, start=1), spaces.MultiDiscrete([2, 3])))}
    ),
}


class Composite(gym.Env):
    """Takes elements of its action space alone."""

    observation_space = spaces.Box(-1, 1, (3,), np.float32)

    def __init__(self, name):
        self.action_space = SPACES[name]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(3, np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.t += 1
        return np.zeros(3, np.float32), 1.0, self.t >= 4, False, {}


def equal(one, other):
    return all(
        np.array_equal(a, b)
        for a, b in zip(
            leaves(one),
            leaves(other),
            strict=True,
        )
    )


@pytest.mark.parametrize("name", SPACES)
def test_episodes_side_by_side_are_those_played_alone(name):
    with plangym_ext.make(lambda: Composite(name), n_workers=0) as env:
        agent = RandomAgent(SPACES[name])
        alone = [play(env, agent, seed=seed, max_steps=9) for seed in (0, 1)]
        both = play(env, agent, seed=0, max_steps=9, num_episodes=2)
        assert len(visited_states(env, agent, 3, num_episodes=2)) == 3
    for one, other in zip(alone, both, strict=True):
        assert one.length == other.length == 4
        assert one.return_ == 4.0
        assert equal(one.actions, other.actions)
        first = rows_of(one.actions, 0)
        assert type(one.actions) is type(first)


@pytest.mark.parametrize("name", SPACES)
def test_an_episode_is_recorded_as_its_space_nests(name):
    space = SPACES[name]
    space.seed(0)
    played = [space.sample() for _ in range(3)]
    recorder = EpisodeRecorder(0, np.zeros(3))
    for action in played:
        recorder.add(
            Plan(action, 0.0, Budget()), np.zeros(3), 1.0, terminated=False, truncated=False
        )
    record = recorder.record()
    assert record.length == 3
    for t, action in enumerate(played):
        assert equal(rows_of(record.actions, t), action)

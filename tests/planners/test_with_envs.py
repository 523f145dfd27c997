"""The planner on the library's real envs and backends."""

from __future__ import annotations

import gc

import gymnasium as gym
import numpy as np
import pytest

import plangym_ext
from plangym_ext.planners import ICEM, MCTS, STS, play


@pytest.mark.slow
@pytest.mark.parametrize(("name", "steps"), [("CartPole-v1", 25), ("ALE/MsPacman-v5", 6)])
def test_an_episode_is_the_same_on_every_backend(name, steps):
    episodes = []
    for n_workers in (None, 1, 2, 3):
        with plangym_ext.make(name, n_workers=n_workers) as env:
            episodes.append(play(env, MCTS(16), seed=7, max_steps=steps))
    first, *others = episodes
    assert first.length == steps
    for other in others:
        assert other.actions.tobytes() == first.actions.tobytes()
        assert other.rewards.tobytes() == first.rewards.tobytes()
        assert other.budget.model_steps == first.budget.model_steps


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_cartpole_is_solved(seed):
    # All of seeds 0 to 4 with up to 64 simulations are in benchmarks/scores.py.
    with plangym_ext.make("CartPole-v1", n_workers=2) as env:
        episode = play(env, MCTS(32), seed=seed, max_steps=500)
    assert episode.return_ == 500
    assert episode.truncated


class Hoarder(gym.Env):
    """Its state grows with every step, and so do the rows that hold it."""

    observation_space = gym.spaces.Box(0, 1, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seen = []
        return np.zeros(1), {}

    def step(self, action):
        self.seen.append(bytes([action]) * 300)
        return np.zeros(1), float(action), len(self.seen) >= 30, False, {}


def test_a_search_outlives_the_widening_of_states():
    with plangym_ext.GymEnv(Hoarder, capture="snapshot") as env:
        before = env.state_width
        episode = play(env, MCTS(16, rollout_depth=2), seed=0, max_steps=12)
        assert env.state_width > before
    # Action 1 pays 1 each step, action 0 nothing.
    assert episode.return_ == 12


@pytest.mark.parametrize("n_workers", [None, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("cls", [MCTS, STS])
@pytest.mark.parametrize("keep_tree", [False, True])
def test_states_in_slots_and_in_arrays_give_the_same(n_workers, cls, keep_tree):
    with plangym_ext.make("CartPole-v1", n_workers=n_workers) as env:
        planner = cls(12, rollout_depth=0, keep_tree=keep_tree)
        arrays = play(env, planner, seed=3, max_steps=6, num_episodes=2)
        assert env.states.capacity == 0
        planner = cls(12, rollout_depth=0, keep_tree=keep_tree, slots=True)
        slots = play(env, planner, seed=3, max_steps=6, num_episodes=2)
        assert env.states.capacity > 0
        for one, other in zip(slots, arrays, strict=True):
            assert one.actions.tobytes() == other.actions.tobytes()
            assert one.budget.model_steps == other.budget.model_steps
        planner.reset()
        gc.collect()
        # All slots have been given back.
        assert len(env.states) == 0


@pytest.mark.slow
def test_a_continuous_episode_is_the_same_on_every_backend():
    episodes = []
    for options in ({}, {"backend": "serial"}, {"n_workers": 2}):
        with plangym_ext.make("Pendulum-v1", **options) as env:
            planner = ICEM(12, horizon=6, iterations=2, num_elites=2)
            episodes.append(play(env, planner, seed=7, max_steps=5, num_episodes=2))
    for other in episodes[1:]:
        for one, two in zip(episodes[0], other, strict=True):
            assert one.actions.tobytes() == two.actions.tobytes()
            assert one.rewards.tobytes() == two.rewards.tobytes()

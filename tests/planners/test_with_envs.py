"""The planner on the library's real envs and backends."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import plangym_ext
from plangym_ext.planners import MCTS, play


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
    with plangym_ext.GymEnv(Hoarder) as env:
        before = env.state_width
        episode = play(env, MCTS(16, rollout_depth=2), seed=0, max_steps=12)
        assert env.state_width > before
    # Action 1 pays 1 each step, action 0 nothing.
    assert episode.return_ == 12

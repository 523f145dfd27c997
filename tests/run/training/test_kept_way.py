"""A run captures states in one way, also where it is resumed and another would be chosen."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from training_runs import weights

from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.runner import Runner
from plangym_ext.run.training.trained import Trained
from plangym_ext.states.trials import choice


class Walk(gym.Env):
    """Draws its steps; exact by snapshot and by replay."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.t = 0.0, 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.x, self.t = self.x + float(action) * self.np_random.random(), self.t + 1
        return np.array([self.x], np.float32), 1.0, self.t >= 50, False, {}


@pytest.fixture
def prefer(monkeypatch):
    """Choose anew from now on, as another process does, a given way."""

    def preferred(*ways):
        monkeypatch.setattr(choice, "candidate_methods", lambda _: ways)
        monkeypatch.setattr(choice, "_proved", {})
        monkeypatch.setattr(choice, "_order", {})

    return preferred


def test_a_resumed_run_takes_the_way_that_it_has_taken(prefer, tmp_path):
    less = {"evaluation": {"every": 0}, "collector": {"num_envs": 2, "moves": 8}}
    small = {"algorithm": {"epochs": 1, "batch_size": 8}, "env": {"n_workers": 0}}
    settings = ["ppo_cartpole", less, small]
    runs = {}
    for name, rounds, ways in (
        ("whole", 2, ["snapshot", "replay"]),
        ("broken", 1, ["snapshot", "replay"]),
        ("broken", 2, ["replay", "snapshot"]),
    ):
        prefer(*ways)
        config = compose([*settings, {"rounds": rounds}])
        with Runner(config, tmp_path / name, resume=True, make_env=Walk) as runner:
            runner.run()
            assert runner._env.exactness.method == "snapshot"
        runs[name] = weights(runner.network)
    assert runs["whole"] == runs["broken"]
    with Trained(tmp_path / "broken", make_env=Walk) as trained:
        assert trained.env.exactness.method == "snapshot"

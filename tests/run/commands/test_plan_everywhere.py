"""`plangym-ext plan` with every planner on envs whose observations differ in kind."""

from __future__ import annotations

import itertools
import json
import os
import sys

import pytest

from plangym_ext.planners import PLANNERS, load_planner
from plangym_ext.planners.continuous.base import Shooting
from plangym_ext.run.cli import main

pytestmark = pytest.mark.slow

#: A Dict of an image, a text and a number; text as in MiniGrid, number as in FrozenLake.
OWN = """
import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Corridor(gym.Env):
    def __init__(self, pushes=False):
        self.observation_space = spaces.Dict(
            image=spaces.Box(0, 255, (3, 9), np.uint8),
            mission=spaces.Text(20),
            at=spaces.Discrete(9),
        )
        self.action_space = spaces.Box(-1, 1, (1,), np.float32) if pushes else spaces.Discrete(2)
        self.at = 4

    def _seen(self):
        image = np.zeros((3, 9), np.uint8)
        image[1, self.at] = 255
        return {"image": image, "mission": "go to the end", "at": self.at}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 4
        return self._seen(), {}

    def step(self, action):
        self.at += 1 if np.asarray(action).ravel()[0] > 0 else -1
        over = self.at in (0, 8)
        return self._seen(), float(self.at == 8), over, False, {}


gym.register("Corridor-v0", entry_point=Corridor, max_episode_steps=40)
gym.register("Pushed-v0", entry_point=Corridor, kwargs={"pushes": True}, max_episode_steps=40)
"""
ENVS = ("MiniGrid-Empty-5x5-v0", "Blackjack-v1", "FrozenLake-v1", "corridor_of_a_user:Corridor-v0")
DISCRETE = [name for name in PLANNERS if not issubclass(load_planner(name), Shooting)]
CONTINUOUS = [name for name in PLANNERS if name not in DISCRETE]
PAIRS = list(itertools.product(DISCRETE, ENVS))
if not os.environ.get("PYTEST_LONG"):
    # Each planner on one env, each env with some planners.
    PAIRS = [(name, ENVS[i % len(ENVS)]) for i, name in enumerate(DISCRETE)]
PAIRS += [(name, "corridor_of_a_user:Pushed-v0") for name in CONTINUOUS]


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "corridor_of_a_user.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(folder))
    yield
    import gymnasium as gym

    sys.modules.pop("corridor_of_a_user", None)
    for name in ("Corridor-v0", "Pushed-v0"):
        gym.registry.pop(name, None)


def planned(env, name, folder, *more):
    """`episode.json` of a few moves."""
    arguments = [env, "--planner", name, "--num-simulations", "8", "--max-steps", "6"]
    assert main(["plan", *arguments, *more, "--out", str(folder)]) == 0
    return json.loads((folder / "episode.json").read_text())


@pytest.mark.parametrize(("name", "env"), PAIRS)
def test_every_planner_plays(name, env, tmp_path, own_module):
    if env.startswith("MiniGrid"):
        pytest.importorskip("minigrid")
    alone = planned(env, name, tmp_path / "serial", "--n-workers", "0")
    assert 1 <= alone["length"] <= 6
    assert alone["terminated"] or alone["length"] == 6


@pytest.mark.parametrize("name", ["mcts", "rollout-iw"])
def test_workers_know_the_users_module_and_plan_the_same(name, tmp_path, own_module):
    env = "corridor_of_a_user:Corridor-v0"
    alone = planned(env, name, tmp_path / "serial", "--n-workers", "0")
    shared = planned(env, name, tmp_path / "workers", "--n-workers", "2")
    assert shared["actions"] == alone["actions"]
    # The only reward is at the end that it walks to.
    assert alone["return"] == shared["return"] == 1.0

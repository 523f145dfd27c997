"""Envs that work in a folder of their own: results lie where they were asked for."""

from __future__ import annotations

import os

import gymnasium as gym
import numpy as np
import pytest

from plangym_ext.run.cli import main
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.runner import Runner
from plangym_ext.run.training.trained import Trained

#: Settings of a run of one round.
SETTINGS = {
    "rounds": 1,
    "evaluation": {"every": 0},
    "collector": {"num_envs": 2, "moves": 8},
    "env": {"max_steps": 9},
}
RUN = ["--rounds", "1", "--collector.num_envs", "2", "--collector.moves", "8", "--quiet"]


class Sim(gym.Env):
    """Works in a folder below the current one, as simulators with input files do."""

    observation_space = gym.spaces.Box(0, 10, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, render_mode=None):
        os.makedirs("sim", exist_ok=True)
        os.chdir("sim")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.full(1, self.t, np.float32), 1.0, self.t >= 5, False, {}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, in which an env that leaves it is registered; it is gone back to."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(gym.registry, "Sim-v0", gym.envs.registration.EnvSpec("Sim-v0", Sim))
    return tmp_path


@pytest.mark.slow
def test_commands_write_where_they_were_typed(folder, capsys):
    train = ["train", "ppo_cartpole", "--env.id", "Sim-v0", *RUN, "--evaluation.every", "0"]
    assert main([*train, "--out", "runs/a"]) == 0
    assert "wrote runs/a/checkpoints/checkpoint-00000001.pt" in capsys.readouterr().out
    os.chdir(folder)
    assert main([*train, "--out", "runs/b"]) == 0
    os.chdir(folder)
    play = ["--episodes", "2", "--max-steps", "4"]
    assert main(["eval", "runs/a", "runs/b", *play, "--out", "both"]) == 0
    os.chdir(folder)
    assert main(["eval", "runs/a", *play]) == 0
    os.chdir(folder)
    plan = ["plan", "Sim-v0", "--planner", "shooting", "--num-simulations", "4"]
    assert main([*plan, "--max-steps", "3", "--out", "runs/p"]) == 0
    for file in ("runs/a/progress.csv", "runs/a/eval.json", "both/paired.json"):
        assert (folder / file).is_file()
    assert (folder / "runs/p/episode.json").is_file()
    assert not list(folder.glob("sim/**/runs"))


def test_a_runner_writes_where_it_was_made(folder):
    with Runner(compose(["ppo_cartpole", SETTINGS]), "run") as runner:
        (folder / "elsewhere").mkdir()
        os.chdir(folder / "elsewhere")
        runner.run()
    assert (folder / "run/progress.csv").is_file()
    assert list((folder / "run/checkpoints").glob("*.pt"))
    assert not list((folder / "elsewhere").iterdir())
    os.chdir(folder)
    with Trained("run") as trained:
        assert trained.path.is_absolute()


def test_the_states_to_begin_from_are_found_where_the_run_was_asked_for(folder):
    from plangym_ext import make
    from plangym_ext.planners import demonstrated_states
    from plangym_ext.planners.rollouts.discrete_shooting import DiscreteShooting

    with make(Sim, n_workers=0) as env:
        states = demonstrated_states(env, DiscreteShooting(4), max_steps=4)
        states.save(folder / "s.npz", env)
    os.chdir(folder)
    config = compose(["ppo_cartpole", SETTINGS, {"starts": {"file": "s.npz"}}])
    with Runner(config, "run", make_env=Sim) as runner:
        runner.run()
    assert (folder / "run/progress.csv").is_file()


def test_a_planner_alone_is_refused_before_it_plays(folder, capsys):
    command = ["eval", "mcts:num_simulations=4", "--env-id", "CartPole-v1", "--episodes", "2"]
    assert main([*command, "--out", "e"]) == 2
    assert "there is no such checkpoint" in capsys.readouterr().err
    assert not (folder / "e").exists()

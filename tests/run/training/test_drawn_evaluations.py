"""Evaluations of which the actions are drawn from the policy, as while it learned."""

from __future__ import annotations

import json

import numpy as np
import pytest

from plangym_ext.errors import InvalidOption
from plangym_ext.learn import tensor_file
from plangym_ext.planners.episode import play
from plangym_ext.run.cli import main
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.callbacks import Callback
from plangym_ext.run.training.runner import Runner
from plangym_ext.run.training.trained import Trained

pytestmark = pytest.mark.slow

DRAWN = {"evaluation": {"every": 1, "episodes": 3, "sample": True}}
SMALL = {
    "ppo_cartpole": {"rounds": 2, "agent": {"hidden": [8]}, "collector": {"num_envs": 4}},
    "sac_pendulum": {
        "rounds": 3,
        "agent": {"hidden": [8]},
        "algorithm": {"learning_starts": 8},
        "env": {"max_steps": 20},
    },
}


def actions(trained: Trained) -> list[list[float]]:
    return [np.ravel(episode.actions).tolist() for episode in trained.play(2)]


def wanted(trained: Trained, mode: str) -> list[list[float]]:
    """What the agent itself plays in a mode."""
    planner = trained.player.agent.as_planner()
    planner.mode = mode
    seed = trained.config.evaluation.seed
    limits = {"seed": seed, "max_steps": trained.max_steps, "num_episodes": 2}
    return [np.ravel(one.actions).tolist() for one in play(trained.env, planner, **limits)]


@pytest.mark.parametrize("preset", SMALL)
def test_actions_are_drawn_where_the_settings_say_so(preset, tmp_path):
    seen: list[float] = []

    class Notes(Callback):
        def on_evaluation(self, runner, episodes):
            seen[:] = [episode.return_ for episode in episodes]

    with Runner(compose([preset, SMALL[preset], DRAWN]), tmp_path, callbacks=[Notes()]) as runner:
        runner.run()
    with Trained(tmp_path) as trained:
        assert trained.player.mode == "sample"
        assert [episode.return_ for episode in trained.play(3)] == seen
        drawn = actions(trained)
        # The same episodes have the same draws.
        assert drawn == actions(trained) == wanted(trained, "sample")
    with Trained(tmp_path, sample=False) as trained:
        best = actions(trained)
        assert best == wanted(trained, "eval")
    assert best != drawn


def test_files_of_weights_draw_as_checkpoints_do(tmp_path):
    kept = {"weights_every": 3}
    with Runner(compose(["sac_pendulum", SMALL["sac_pendulum"], kept]), tmp_path) as runner:
        runner.run()
        updates = runner.algorithm.updates
    with Trained(tmp_path, sample=True) as trained:
        drawn = actions(trained)
    path = tmp_path / "weights" / "weights-00000003.pt"
    with Trained(path, sample=True) as trained:
        assert trained.learned["updates"] == updates
        assert actions(trained) == drawn
    # As they were written once.
    saved = tensor_file.load(path)
    saved["trainer"] = {"network": saved["trainer"]["network"]}
    tensor_file.save(path, saved)
    with Trained(path, sample=True) as trained:
        assert actions(trained) == drawn


def test_eval_draws_and_does_not(tmp_path, capsys):
    out = str(tmp_path)
    small = ["--rounds=1", "--collector.num_envs=4", "--evaluation.every=0", "--quiet"]
    assert main(["train", "ppo_cartpole", "--out", out, *small]) == 0
    returns = {}
    for options in ([], ["--sample"], ["--no-sample"]):
        assert main(["eval", out, "--episodes=3", *options]) == 0
        told = json.loads((tmp_path / "eval.json").read_text())
        returns[" ".join(options)] = told["returns"]
        assert told["sample"] is (options == ["--sample"])
        drawn = "CartPole-v1, network, actions drawn: mean return" in capsys.readouterr().out
        assert drawn is told["sample"]
    assert returns[""] == returns["--no-sample"] != returns["--sample"]


@pytest.mark.parametrize(
    ("preset", "message"),
    [
        ("dqn_cartpole", "draw from a policy; 'q' chooses its actions. Leave it out"),
        ("td3_pendulum", "draw from a policy; 'deterministic_policy' chooses"),
        ("cartpole", "draw from a policy; 'network' chooses its actions. Leave it out"),
    ],
)
def test_nothing_is_drawn_where_there_is_no_policy(preset, message):
    with pytest.raises(InvalidOption, match=message):
        compose([preset, DRAWN])


def test_a_contest_of_planners_has_nothing_to_draw(tmp_path, capsys):
    out = f"--out={tmp_path}"
    planners = ["mcts:num_simulations=4", "mcts:num_simulations=8", "--env-id=CartPole-v1"]
    assert main(["eval", *planners, "--sample", out]) == 2
    assert "--sample is for checkpoints, and none is named" in capsys.readouterr().err


def test_the_preset_of_atari_draws():
    assert compose(["ppo_atari"]).evaluation.sample
    assert not compose(["ppo_cartpole"]).evaluation.sample

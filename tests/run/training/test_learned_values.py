"""`train icem_pendulum`: a sampling planner learns what follows its sequences."""

from __future__ import annotations

import dataclasses

from plangym_ext.planners import play
from plangym_ext.run.cli import main
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.runner import Runner
from plangym_ext.run.training.trained import Trained

ENV, EPISODES = "Pendulum-v1", 6


def mean(episodes):
    return sum(episode.return_ for episode in episodes) / len(episodes)


def test_four_steps_swing_a_pendulum_up_when_it_has_learned_what_follows(tmp_path, capsys):
    config = compose(["icem_pendulum", {"rounds": 9, "evaluation": {"every": 0}}])
    with Runner(config, tmp_path) as runner:
        runner.run()
        assert runner.algorithm.updates > 0
    with Trained(tmp_path) as trained:
        learned = mean(trained.play(EPISODES))
        alone = dataclasses.replace(trained.player, evaluator=None)
        blind = mean(play(trained.env, alone, seed=0, max_steps=200, num_episodes=EPISODES))
    # Standing upright costs nothing, hanging down 16 a step.
    assert learned > -300.0
    assert blind < -500.0

    planner = ["--planner", "icem", "--horizon", "4", "--num-simulations", "32"]
    out = tmp_path / "plan"
    network = ["--network", str(tmp_path), "--max-steps", "3", "--out", str(out)]
    assert main(["plan", ENV, *planner, *network]) == 0
    assert "3 moves" in capsys.readouterr().out

"""Learning from the ways that searches find."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from plangym_ext.errors import InvalidOption
from plangym_ext.run.cli import main
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.parts import Parts
from plangym_ext.run.training.runner import Runner
from plangym_ext.run.training.solutions import make_sampler
from plangym_ext.run.training.trained import trained_evaluator

pytestmark = pytest.mark.slow

#: Levels that are solved at once, and one that cannot be.
LEVELS = ["######\n#@$ .#\n#    #\n#    #\n#    #\n######"] * 3 + [
    "######\n#$   #\n# @ .#\n#    #\n#    #\n######"
]
TINY = {
    "env": {"kwargs": {"levels": LEVELS}},
    "planner": {"num_simulations": 60},
    "agent": {"channels": [4], "hidden": [8]},
    "algorithm": {
        "batch_size": 16,
        "learning_starts": 1,
        "capacity": 500,
        "updates_per_round": 3,
    },
    "collector": {"num_envs": 8},
    "rounds": 2,
}


def tiny(**changed):
    return compose(["boxoban", TINY, changed])


def made(parts, env):
    network = parts.network(env)
    return make_sampler(parts, env, network, parts.agent(network))


def test_solutions_alone_are_learned_and_all_problems_are_told():
    config = tiny()
    parts = Parts(config)
    env = parts.env()
    with env:
        found = made(parts, env).collect(1)
    solved = [one for one in found.data if one.terminated]
    assert 0 < len(found.data) == len(solved) < 8
    assert found.episodes["terminated"].sum() == len(solved)
    assert len(found.episodes["return"]) == 8
    for record in found.data:
        # Two pushes to the right are all that it takes.
        assert record.actions.tolist() == [3, 3]
        assert record.rewards.tolist() == [-1.0, -1.0]
        assert record.policies.argmax(axis=1).tolist() == [3, 3]
    assert found.cost.model_steps > 0


def test_a_run_that_is_resumed_equals_one_that_was_not(tmp_path):
    with Runner(tiny(), tmp_path / "whole") as runner:
        runner.run()
        whole = {name: rows.clone() for name, rows in runner.network.state_dict().items()}
    with Runner(tiny(rounds=1), tmp_path / "parts") as runner:
        runner.run()
    with Runner(tiny(), tmp_path / "parts", resume=True) as runner:
        runner.run()
        for name, rows in runner.network.state_dict().items():
            assert torch.equal(rows, whole[name])
        env = runner._env
        ask = trained_evaluator(tmp_path / "whole", env)
        _, obs, _ = env.reset(seed=0)
        for one, other in zip(ask(obs[None]), runner.agent.evaluator(obs[None]), strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_planner_on_the_command_line_asks_the_network_of_a_run(tmp_path, capsys):
    with Runner(tiny(rounds=1), tmp_path / "run") as runner:
        runner.run()
    (tmp_path / "level.txt").write_text(LEVELS[0])
    words = ["plan", "plangym_ext/Sokoban-v0", "--env.levels", str(tmp_path / "level.txt")]
    words += ["--num-simulations", "50", "--max-steps", "5", "--out", str(tmp_path / "plan")]
    network = ["--network", str(tmp_path / "run")]
    phs = ["--planner", "phs", "--state-key", "obs", "--value-to-go"]
    assert main([*words, *phs, *network]) == 0
    episode = json.loads((tmp_path / "plan" / "episode.json").read_text())
    assert episode["terminated"]
    assert episode["actions"] == [3, 3]
    assert episode["network"] == str(tmp_path / "run")
    assert main([*words, "--planner", "best-first", *network]) != 0
    assert "--network needs a planner with an evaluator" in capsys.readouterr().err
    words[1] = "CartPole-v1"
    del words[2:4]
    assert main([*words, *phs, *network, "--overwrite"]) != 0
    assert "it was trained on the observation space" in capsys.readouterr().err


def test_a_planner_without_ways_is_refused():
    config = tiny(planner={"name": "mcts", "num_simulations": 2})
    parts = Parts(config)
    with parts.env() as env, pytest.raises(InvalidOption, match="planner that finds solutions"):
        made(parts, env).collect(1)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"collector": {"kind": "solution"}}, "one of games, solutions.*did you mean 'solutions'"),
        ({"collector": {"kind": "solutions", "n_workers": 2}}, "must be 0 with .* 'solutions'"),
        (
            ["expert_cartpole", {"collector": {"n_workers": 2}}],
            r"n_workers must be 0 with algorithm 'expert', .* Set env\.n_workers",
        ),
        (
            [
                {"algorithm": {"name": "ppo", "advantages": {"name": "forked"}}},
                {"agent": {"name": "actor_critic"}, "collector": {"n_workers": 2}},
            ],
            r"n_workers must be 0 with algorithm\.advantages 'forked'",
        ),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings, said):
    with pytest.raises(InvalidOption, match=said):
        compose(settings if isinstance(settings, list) else [settings])

"""Runs whose policy learns from branches of visited states."""

from __future__ import annotations

import json

import pytest

from plangym_ext.errors import IncompleteState, InvalidOption, UnknownName
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.runner import Runner


def config(preset, rounds, **env):
    small = {
        "rounds": rounds,
        "env": env,
        "collector": {"num_envs": 3, "moves": 16},
        "algorithm": {"advantages": {"name": "forked", "branches": 3, "horizon": 6, "every": 5}},
        "evaluation": {"every": 0},
        "checkpoint_every": 0,
    }
    return compose([preset, small])


@pytest.mark.parametrize("preset", ["ppo_cartpole", "a2c_cartpole"])
def test_a_run_is_charged_for_branches_and_resumes_bit_for_bit(preset, tmp_path):
    weights = []
    for name, stops in (("whole", [6]), ("resumed", [3, 6])):
        for rounds in stops:
            with Runner(config(preset, rounds), tmp_path / name, resume=True) as runner:
                runner.run()
                steps = runner.algorithm.steps
        weights.append({k: v.clone() for k, v in runner.network.state_dict().items()})
    logs = [(tmp_path / name / "progress.jsonl").read_text() for name in ("whole", "resumed")]
    assert logs[0] == logs[1]
    assert all((weights[0][name] == weights[1][name]).all() for name in weights[0])
    rows = [json.loads(line) for line in logs[0].splitlines()]
    assert all(row["branch_steps"] == row["model_steps"] - 48 > 0 for row in rows)
    totals = [row["total_steps"] for row in rows]
    assert totals[-1] == sum(row["model_steps"] for row in rows) == steps
    assert rows[-1]["step"] == 6 * 48


def test_runs_without_exact_states_are_refused(tmp_path):
    pytest.importorskip("Box2D")
    loose = {"id": "LunarLander-v3", "kwargs": {"capture": "approximate"}}
    with pytest.raises(IncompleteState, match="those of LunarLander-v3 are not"):
        Runner(config("ppo_cartpole", 1, **loose), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_runs_of_recurrent_agents_are_refused(tmp_path):
    with pytest.raises(InvalidOption, match=r"must not be recurrent, .*ActorCriticAgent is"):
        Runner(config("recurrent_ppo_cartpole_no_velocity", 1), tmp_path / "run")


def test_other_algorithms_have_no_such_setting():
    with pytest.raises(UnknownName, match=r"algorithm\.advantages"):
        config("dqn_cartpole", 1)

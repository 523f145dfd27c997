"""Runs that learn a model and plan in it."""

from __future__ import annotations

import json

import pytest

from plangym_ext.learn import ModelPlanner
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.runner import Runner
from plangym_ext.run.training.trained import Trained

MUZERO = {
    "rounds": 6,
    "checkpoint_every": 0,
    "env": {"max_steps": 15},
    "planner": {"num_simulations": 4},
    "agent": {"representation": [8], "latent": 6, "hidden": [8]},
    "algorithm": {
        "learning_starts": 8,
        "batch_size": 8,
        "updates_per_round": 2,
        "reanalyze": 0.5,
        "capacity": 60,
        "unroll": 2,
        "n_steps": 3,
    },
    "collector": {"num_envs": 3, "moves": 8},
    "evaluation": {"every": 3, "episodes": 2, "stop_at": None},
}
PETS = {
    "rounds": 6,
    "checkpoint_every": 0,
    "env": {"max_steps": 5},
    "planner": {"num_simulations": 4, "horizon": 3, "iterations": 1, "num_elites": 2},
    "agent": {"members": 2, "hidden": [8]},
    "algorithm": {"learning_starts": 8, "batch_size": 8, "updates_per_round": 2, "capacity": 60},
    "collector": {"num_envs": 3, "moves": 8},
    "evaluation": {"every": 3, "episodes": 2},
}
CASES = {
    "pets": ("pets_pendulum", PETS),
    "puct": ("muzero_cartpole", MUZERO),
    "gumbel": (
        "muzero_cartpole",
        MUZERO | {"planner": {"num_simulations": 4, "selection": "gumbel", "temperature": 0.0}},
    ),
    "two players": ("gumbel_muzero_connect4", MUZERO),
}


@pytest.mark.parametrize("case", list(CASES))
def test_a_run_resumes_bit_for_bit(case, tmp_path):
    weights = []
    for name, stops in (("whole", [6]), ("resumed", [3, 6])):
        for rounds in stops:
            settings = compose([*CASES[case], {"rounds": rounds}])
            with Runner(settings, tmp_path / name, resume=True, show=False) as runner:
                runner.run()
                steps = runner.algorithm.steps
        weights.append({k: v.clone() for k, v in runner.network.state_dict().items()})
    logs = [(tmp_path / name / "progress.jsonl").read_text() for name in ("whole", "resumed")]
    assert logs[0] == logs[1]
    assert all((weights[0][name] == weights[1][name]).all() for name in weights[0])
    rows = [json.loads(line) for line in logs[0].splitlines()]
    assert rows[-1]["updates"] > 4
    assert case == "pets" or any(row.get("train/reanalyzed", 0) > 0 for row in rows)
    # Searches cost steps of the model, and none of the env.
    assert steps == rows[-1]["step"] == 6 * 24


def test_what_was_learned_is_evaluated_with_its_model(tmp_path):
    with Runner(compose([*CASES["puct"]]), tmp_path / "run", show=False) as runner:
        runner.run()
    with Trained(tmp_path / "run") as trained:
        assert isinstance(trained.player, ModelPlanner)

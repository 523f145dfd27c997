"""Runs in which a planner teaches an agent."""

from __future__ import annotations

import json

import pytest

from plangym_ext.errors import InvalidOption, UnknownName
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.settings.settings import listed, plain
from plangym_ext.run.training.runner import Runner

SMALL = {
    "agent": {"hidden": [8]},
    "collector": {"num_envs": 3, "moves": 8},
    "evaluation": {"every": 3, "episodes": 2},
    "env": {"max_steps": 20},
    "checkpoint_every": 0,
}
LEARNS = {"learning_starts": 16, "batch_size": 8, "updates_per_round": 3, "teacher_share": 0.5}
CASES = {
    "discrete": (
        "expert_cartpole",
        {"name": "mcts", "num_simulations": 4, "keep_tree": True, "temperature": 1.0},
    ),
    "box": ("expert_pendulum", {"num_simulations": 6, "horizon": 3}),
}


def config(case, rounds, **algorithm):
    preset, planner = CASES[case]
    changed = {"algorithm": {**LEARNS, **algorithm}, "planner": planner, "rounds": rounds}
    return compose([preset, SMALL, changed])


@pytest.mark.parametrize("case", list(CASES))
def test_a_run_is_charged_for_searches_and_resumes_bit_for_bit(case, tmp_path):
    weights = []
    for name, stops in (("whole", [6]), ("resumed", [3, 6])):
        for rounds in stops:
            settings = config(case, rounds, guided=True, reanalyze=0.5, capacity=60)
            with Runner(settings, tmp_path / name, resume=True) as runner:
                runner.run()
                steps = runner.algorithm.steps
        weights.append({k: v.clone() for k, v in runner.network.state_dict().items()})
    logs = [(tmp_path / name / "progress.jsonl").read_text() for name in ("whole", "resumed")]
    assert logs[0] == logs[1]
    assert all((weights[0][name] == weights[1][name]).all() for name in weights[0])
    rows = [json.loads(line) for line in logs[0].splitlines()]
    assert all(row["search_steps"] == row["model_steps"] - 24 > 0 for row in rows)
    totals = [row["total_steps"] for row in rows]
    assert totals[-1] == sum(row["model_steps"] for row in rows) == steps
    assert rows[-1]["step"] == 6 * 24
    assert rows[-1]["updates"] == 6 * 3  # 24 states suffice to begin


def test_the_planner_is_a_section_of_its_own():
    settings = compose(["expert_cartpole", {"planner": {"name": "mcts", "num_simulations": 4}}])
    assert plain(settings)["planner"] == {"name": "mcts", "num_simulations": 4}
    assert "planner.num_simulations" in {setting.key for setting in listed(settings)}
    ppo = compose(["ppo_cartpole"])
    assert "planner" not in plain(ppo)
    assert not any(setting.key.startswith("planner") for setting in listed(ppo))
    with pytest.raises(InvalidOption, match=r"planner\.name must name one"):
        compose(["ppo_cartpole", {"algorithm": {"name": "expert"}}])
    with pytest.raises(InvalidOption, match="'ppo' does not"):
        compose(["ppo_cartpole", {"planner": {"name": "mcts"}}])
    with pytest.raises(UnknownName, match="did you mean 'num_simulations'"):
        compose(["expert_cartpole", {"planner": {"name": "mcts", "num_simulation": 4}}])

"""The program that trains agents beside others: its settings, its numbers, its table."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest
from leaks import wait_until

from plangym_ext.run.bootstrap import mean_interval
from plangym_ext.run.settings.settings import plain

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def program():
    """The parts of the program, which are no installed package."""
    sys.path.insert(0, str(FOLDER))
    try:
        from agent_runs import cells, curve, page, sb3_settings, tasks

        yield {
            "cells": cells,
            "curve": curve,
            "page": page,
            "sb3": sb3_settings,
            "tasks": tasks,
        }
    finally:
        sys.path.remove(str(FOLDER))
        for name in [n for n in sys.modules if n.partition(".")[0] in ("agent_runs", "stepping")]:
            del sys.modules[name]


def test_interquartile_means_leave_out_a_quarter_on_each_side():
    def of(*values):
        return mean_interval(values, statistic="iqm")

    assert of(1.0, 2.0, 3.0, 4.0, 100.0)[0] == 3.0
    assert of(0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 70.0)[0] == 3.5
    assert of(7.0, 9.0)[0] == 8.0
    assert of(*[5.0] * 4)[1:] == (5.0, 5.0)
    _, low, high = of(1.0, 2.0, 3.0, 4.0, 5.0)
    assert 1.0 <= low < 3.0 < high <= 5.0


def test_a_curve_has_the_mean_of_the_episodes_of_each_span(program):
    curve = program["curve"].Curve(1000)
    for step, count, mean in (
        (20, 3, 1.0),
        (20, 1, 5.0),
        (21, 1, 7.0),
        (901, 1, 8.0),
        (1000, 3, 4.0),
    ):
        curve.add(step, count, mean)
    points = curve.points()
    assert [(p["step"], p["episodes"], p["return"]) for p in points] == [
        (20, 4, 2.0),
        (40, 1, 7.0),
        (920, 1, 8.0),
        (1000, 3, 4.0),
    ]
    assert curve.last_tenth() == 5.0


def test_every_task_has_settings_for_all_who_learn_it(program):
    for name, task in program["tasks"].TASKS.items():
        config = task.config(3)
        assert config.seed == 3, name
        if task.sb3:
            settings = program["sb3"].sb3_settings(config)
            assert json.loads(json.dumps(settings)) == settings
            assert settings["steps"] == config.rounds * config.steps_per_round


def test_stable_baselines_gets_the_same_settings(program):
    config = program["tasks"].TASKS["ppo CartPole, CleanRL"].config(0)
    settings = program["sb3"].sb3_settings(config)
    assert settings["keywords"] == {
        "learning_rate": [2.5e-4, 0.0],
        "n_steps": 128,
        "gamma": 0.99,
        "gae_lambda": 0.95,
        "ent_coef": 0.01,
        "vf_coef": 0.25,
        "max_grad_norm": 0.5,
        "normalize_advantage": True,
        "batch_size": 128,
        "n_epochs": 4,
        "clip_range": 0.2,
        "clip_range_vf": 0.2,
        "target_kl": None,
    }
    assert settings["policy"] == {
        "net_arch": {"pi": [64, 64], "vf": [64, 64]},
        "activation": "tanh",
        "log_std_init": 0.0,
    }
    assert (settings["num_envs"], settings["steps"]) == (4, 976 * 512)


def test_dqn_there_gets_what_is_counted_in_steps_and_not_in_updates(program):
    settings = program["sb3"].sb3_settings(program["tasks"].TASKS["dqn_cartpole"].config(0))
    assert settings["keywords"] == {
        "learning_rate": 2.5e-4,
        "buffer_size": 10_000,
        "learning_starts": 10_000,
        "batch_size": 128,
        "tau": 1.0,
        "gamma": 0.99,
        # 10 moves of 8 envs, then a tenth as many updates.
        "train_freq": 10,
        "gradient_steps": 8,
        "n_steps": 1,
        "max_grad_norm": float("inf"),
        "target_update_interval": 500,
        "exploration_initial_eps": 1.0,
        "exploration_final_eps": 0.05,
        "exploration_fraction": 0.5,
    }
    assert settings["squared"]
    assert settings["policy"] == {
        "activation": "relu",
        "optimizer_kwargs": {"eps": 1e-8},
        "net_arch": [120, 84],
    }


def test_actor_critics_there_have_the_same_critics_and_noise(program):
    tasks = program["tasks"].TASKS
    networks = {"pi": [256, 256], "qf": [256, 256]}
    found = program["sb3"].sb3_settings(tasks["td3 Hopper, 100k"].config(0))
    assert (found["algorithm"], found["env"], found["steps"]) == ("TD3", "Hopper-v5", 100_000)
    assert found["policy"]["net_arch"] == networks
    assert found["policy"]["n_critics"] == 2
    changed = {"action_noise": 0.1, "policy_delay": 2, "target_policy_noise": 0.2}
    assert changed.items() <= found["keywords"].items()
    assert (found["keywords"]["train_freq"], found["keywords"]["gradient_steps"]) == (16, 16)
    found = program["sb3"].sb3_settings(tasks["sac_pendulum"].config(0))
    assert found["keywords"]["ent_coef"] == "auto_1.0"
    assert found["policy"]["net_arch"] == networks


def test_games_there_are_played_with_its_own_wrappers_and_frames_kept_once(program):
    found = program["sb3"].sb3_settings(program["tasks"].TASKS["dqn Pong"].config(0))
    assert (found["atari"], found["num_envs"], found["squared"]) == (True, 4, False)
    assert found["env_kwargs"] == {"frameskip": 1, "repeat_action_probability": 0.0}
    # The convolutions and their dense layer are the policy's default.
    assert found["policy"]["net_arch"] == []
    replay = {
        "buffer_size": 250_000,
        "optimize_memory_usage": True,
        "train_freq": 8,
        "gradient_steps": 8,
        "target_update_interval": 1000,
    }
    assert replay.items() <= found["keywords"].items()


def test_what_stable_baselines_has_not_is_refused(program):
    from plangym_ext.run.settings.compose import compose

    shared = compose(["ppo_cartpole", {"agent": {"shared_body": True}}])
    with pytest.raises(ValueError, match="apart for policy and value"):
        program["sb3"].sb3_settings(shared)
    double = compose(["dqn_cartpole", {"algorithm": {"double": True}}])
    with pytest.raises(ValueError, match="not double"):
        program["sb3"].sb3_settings(double)
    longer = compose(["ppo_cartpole", {"rounds": 500}])
    with pytest.raises(ValueError, match="must end with the run"):
        program["sb3"].sb3_settings(longer)
    unclipped = compose(["dqn_atari", {"algorithm": {"clip_reward": None}}])
    with pytest.raises(ValueError, match="rewards clipped of Atari games alone"):
        program["sb3"].sb3_settings(unclipped)
    residual = compose(["dqn_atari", {"agent": {"kind": "impala"}}])
    with pytest.raises(ValueError, match="of kind nature"):
        program["sb3"].sb3_settings(residual)


@pytest.fixture
def our_run(scripts, program, tmp_path_factory):
    """Begin a short run of ours, in a process of its own."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "run.py").write_text(
        f"import sys\nsys.path.insert(0, {str(FOLDER)!r})\n"
        "from agent_runs.our_run import main\nmain()\n"
    )
    config = plain(program["tasks"].TASKS["ppo_cartpole"].config(0))
    settings = {**config, "rounds": 60, "checkpoint_every": 5}

    def begin(out):
        request = {"settings": settings, "episodes": 3, "seed": 0, "out": str(out)}
        return scripts.start(folder / "run.py", folder=folder, stdin=json.dumps(request))

    return begin


def test_a_run_that_was_killed_goes_on_from_its_last_checkpoint(our_run, tmp_path):
    whole, killed = tmp_path / "whole.json", tmp_path / "killed.json"
    assert our_run(whole).wait().returncode == 0
    process = our_run(killed)
    checkpoint = killed.with_suffix(".60-rounds") / "checkpoints" / "checkpoint-00000020.pt"
    assert wait_until(checkpoint.exists, timeout=300.0)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait().returncode != 0
    assert not killed.exists()
    assert our_run(killed).wait().returncode == 0

    found = [json.loads(path.read_text()) for path in (whole, killed)]
    for one in found:
        assert one["seconds"] >= one["curve"][-1].pop("seconds") > 0.0
        for point in one["curve"][:-1]:
            del point["seconds"]
    for key in ("steps", "training", "evaluation", "curve"):
        assert found[0][key] == found[1][key], key
    assert found[0]["steps"] == 60 * 256
    assert sorted(path.name for path in tmp_path.iterdir()) == ["killed.json", "whole.json"]


def run_of(seed, seconds, training, evaluation):
    return {
        "seed": seed,
        "steps": 1000,
        "seconds": seconds,
        "training": training,
        "evaluation": evaluation,
        "date": "2026-01-01",
        "versions": {"torch": "2"},
    }


def test_the_page_and_what_presets_reached_are_those_of_the_runs(program):
    rows = {
        "ppo_cartpole": {
            "ours": [run_of(0, 1.0, 400.0, 500.0), run_of(1, 1.0, 410.0, 480.0)],
            "sb3": [run_of(0, 9.0, 300.0, 320.0)],
        },
        "speed: ppo CartPole x8": {
            "ours": [run_of(0, 0.5, None, None), run_of(1, 0.25, None, None)],
            "sb3": [run_of(0, 2.0, None, None)],
            "sbx": [run_of(0, 1.0, None, None)],
        },
    }
    text = program["page"].page(rows)
    assert (
        "| ppo_cartpole | 1,000 | ours | 2 | 405.0 [400.0, 410.0] | 490.0 [480.0, 500.0] |" in text
    )
    assert "| SB3 | 1 | 300.0 [300.0, 300.0] | 320.0 [320.0, 320.0] |" in text
    assert "| 3,000 (2,000 to 4,000) | SB3 | 500 (500 to 500) | 6.00 | 3 |" in text
    assert "| 3,000 (2,000 to 4,000) | SBX | 1,000 (1,000 to 1,000) | 3.00 | 1.1 |" in text
    found = program["page"].reached(rows, {"ppo_cartpole": "ppo_cartpole"}.get)
    assert found == {
        "ppo_cartpole": {
            "return": 490.0,
            "interval": [480.0, 500.0],
            "seeds": 2,
            "steps": 1000,
            "date": "2026-01-01",
        }
    }


def test_curves_of_games_are_kept_and_shown_by_tenths(program):
    # Spans of two hundredths; none ends in the second tenth, and the last is counted to its own.
    points = [(20, 3, 1.0), (100, 1, 5.0), (220, 2, 7.0), (1000, 1, -1.0)]
    curve = [{"step": s, "episodes": n, "return": r, "seconds": s * 7.2} for s, n, r in points]
    whole = {**run_of(0, 7200.0, -1.0, [-3.0, -1.0]), "curve": curve, "load": [0, 0], "kept": 0}
    rows = {name: {"ours": [whole]} for name in ("dqn Pong", "ppo_cartpole")}
    found = program["cells"].summary(rows)
    assert found["dqn Pong"]["ours"][0]["curve"] == curve
    assert "curve" not in found["ppo_cartpole"]["ours"][0]
    text = program["page"].page(found)
    assert "| dqn Pong | ours | 0 | 1,000 | 2.0 | 2.0 |  | 7.0 |" + "  |" * 6 + " -1.0 |" in text
    assert text.count("| dqn Pong |") == 2


def test_runs_of_earlier_days_are_kept_beside_new_ones(program):
    def run(seed, value):
        return {"seed": seed, "evaluation": value}

    kept = {"ppo_cartpole": {"ours": [run(0, 1.0), run(2, 3.0)], "sb3": [run(0, 9.0)]}}
    new = {
        "ppo_cartpole": {"ours": [run(1, 2.0), run(2, 4.0)]},
        "a2c_cartpole": {"ours": [run(0, 5.0)]},
    }
    joined = program["cells"].joined(kept, new)
    assert list(joined) == ["ppo_cartpole", "a2c_cartpole"]
    assert joined["ppo_cartpole"] == {
        "ours": [run(0, 1.0), run(1, 2.0), run(2, 4.0)],
        "sb3": [run(0, 9.0)],
    }
    assert joined["a2c_cartpole"] == {"ours": [run(0, 5.0)]}


def test_the_page_says_what_is_kept(program):
    kept = json.loads(program["cells"].RESULTS.read_text())
    text = (FOLDER.parents[1] / "docs" / "benchmarks_learning.md").read_text()
    text = re.sub(r"Newest figures: .*\n\n", "", text)
    assert program["page"].page(program["cells"].joined(kept, {})) in text

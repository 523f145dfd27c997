"""Statistics of the last episodes of a run."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("torch")

from plangym_ext.learn.sampling.collected import episode_rows
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.callbacks import RecentEpisodes
from plangym_ext.run.training.runner import Runner


def rows(*returns):
    return episode_rows(returns, np.arange(len(returns)), [True] * len(returns))


def test_they_are_of_the_last_episodes_of_several_rounds():
    recent = RecentEpisodes(4)
    assert recent.statistics == {}
    recent.take(rows())
    assert recent.statistics == {}
    recent.take(rows(100.0, 1.0, 2.0))
    recent.take(rows())
    assert recent.statistics["recent/episodes"] == 3
    recent.take(rows(3.0, 8.0))
    assert recent.statistics == {
        "recent/episodes": 4,
        "recent/return": 3.5,
        "recent/return_std": np.std([1, 2, 3, 8]),
        "recent/return_min": 1.0,
        "recent/return_median": 2.5,
        "recent/return_max": 8.0,
        "recent/length": 1.0,
    }


def test_a_run_that_is_resumed_logs_them_as_if_it_had_not_stopped(tmp_path):
    # Episodes of more than a round: some rounds end none, and have the statistics all the same.
    changed = {
        "collector": {"num_envs": 2, "moves": 8},
        "rounds": 12,
        "recent_episodes": 5,
        "evaluation": {"every": 0},
    }
    whole, half = compose(["ppo_cartpole", changed]), compose(["ppo_cartpole", changed])
    with Runner(whole, tmp_path / "whole") as runner:
        runner.run()
    with Runner(compose(["ppo_cartpole", changed, {"rounds": 6}]), tmp_path / "half") as runner:
        runner.run()
    with Runner(half, tmp_path / "half", resume=True) as runner:
        runner.run()
    logs = [(tmp_path / name / "progress.csv").read_text() for name in ("whole", "half")]
    assert logs[0] == logs[1]
    lines = (tmp_path / "whole" / "progress.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    begun = [row for row in found if "recent/return" in row]
    assert any("return" not in row for row in begun)
    assert [row["recent/episodes"] for row in begun[-2:]] == [5, 5]

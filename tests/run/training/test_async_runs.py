"""Runs that play and learn at once."""

from __future__ import annotations

import json

import pytest
from training_runs import log, weights

from plangym_ext.errors import InvalidOption
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.callbacks import Callback
from plangym_ext.run.training.runner import Runner

pytestmark = pytest.mark.slow

SMALL = {
    "mode": "async",
    "agent": {"hidden": [8]},
    "algorithm": {"critic_hidden": [8], "learning_starts": 24, "batch_size": 8},
    "rounds": 8,
    "checkpoint_every": 3,
    "collector": {"num_envs": 2, "moves": 6, "lead": 0.25},
    "evaluation": {"every": 4, "episodes": 1},
}


class Fails(Callback):
    """Raises in the middle of a round."""

    def on_episodes(self, runner, records):
        if runner.round == 7:
            raise RuntimeError("in the middle of a round")


def rows_of(folder):
    return [json.loads(line) for line in (folder / "progress.jsonl").read_text().splitlines()]


def test_the_ratio_is_kept_and_a_run_that_broke_off_goes_on_bit_for_bit(tmp_path):
    config = compose(["sac_pendulum", SMALL])
    with Runner(config, tmp_path / "whole") as whole:
        whole.run()
    assert whole.steps == 8 * 12
    assert whole.algorithm.updates == 8 * 12 - 24
    rows = rows_of(tmp_path / "whole")
    # Updates of a round are owed for the steps of that round, neither more nor less.
    assert [row["updates"] for row in rows] == [max(0, 12 * n - 24) for n in range(1, 9)]
    # Rounds are played ahead from the one on in which one round is a quarter of those since
    # learning began: never more is played that was not learned from.
    ages = [row.get("policy_age", 0) for row in rows]
    assert ages == [0, 0, 0, 0, 0, 0, 12, 12]
    for number, (row, next_age) in enumerate(zip(rows[2:], ages[3:], strict=False), 3):
        played = 12 * (number + (next_age > 0)) - 24
        assert row["updates"] >= (1 - 0.25) * played
    with (
        Runner(config, tmp_path / "broken", callbacks=[Fails()]) as runner,
        pytest.raises(RuntimeError, match="in the middle"),
    ):
        runner.run()
    with Runner(config, tmp_path / "broken", resume=True) as runner:
        assert runner.round == 6
        runner.run()
    assert weights(runner.network) == weights(whole.network)
    assert log(tmp_path / "broken") == log(tmp_path / "whole")


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        (["sac_pendulum", {"mode": "both"}], r"mode must be one of sync, async; got 'both'"),
        (
            ["sac_pendulum", {"mode": "async", "collector": {"lead": 2}}],
            r"collector\.lead must be a finite number in \[0.0, 1.0\]; got 2",
        ),
        (["ppo_cartpole", {"mode": "async"}], r"mode 'async' is for .* replay, .*; ppo learns"),
        (["sac_pendulum", {"mode": "async", "env": {"n_workers": 2}}], r"env\.n_workers must be 0"),
        (
            ["dqn_cartpole", {"mode": "async", "algorithm": {"exploration_least": 0.1}}],
            r"exploration_least must be None",
        ),
    ],
)
def test_what_cannot_be_played_and_learned_at_once_is_refused(sources, message):
    with pytest.raises(InvalidOption, match=message):
        compose(sources)


def test_agents_may_have_several_processes():
    config = compose(["sac_pendulum", {"mode": "async", "collector": {"n_workers": 1}}])
    assert config.collector.n_workers == 1

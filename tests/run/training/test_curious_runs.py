"""Runs with intrinsic rewards."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from training_runs import weights

from plangym_ext.errors import InvalidOption
from plangym_ext.learn import CuriosityConfig
from plangym_ext.run import Callback, CuriousRewards, Runner, compose

CHANGED = {
    "collector": {"num_envs": 4, "moves": 12},
    "algorithm": {"epochs": 1, "batch_size": 24},
    "evaluation": {"every": 0},
    "rounds": 3,
    "checkpoint_every": 1,
}


class Order(Callback):
    """Writes down the hooks of a run, with its rounds and updates."""

    def __init__(self):
        self.seen = []

    def on_collect(self, runner):
        self.seen.append(("collect", runner.round, runner.algorithm.updates))

    def on_episodes(self, runner, records):
        self.seen.append(("episodes", runner.round, runner.algorithm.updates))

    def on_update(self, runner, metrics):
        assert "train/loss" in metrics
        self.seen.append(("update", runner.round, runner.algorithm.updates))

    def on_round(self, runner, values):
        self.seen.append(("round", runner.round, runner.algorithm.updates))


def test_hooks_are_called_before_and_after_collection_and_updates(tmp_path):
    order = Order()
    config = compose(["ppo_cartpole", CHANGED, {"rounds": 2}])
    with Runner(config, tmp_path / "run", callbacks=[order], show=False) as runner:
        runner.run()
    assert order.seen == [
        (name, k + (name == "round"), 2 * (k + (name in ("update", "round"))))
        for k in range(2)
        for name in ("collect", "episodes", "update", "round")
    ]


def run(folder, rounds, bonus=True, **options):
    callback = CuriousRewards(CuriosityConfig(weight=1.0))
    config = compose(["ppo_cartpole", CHANGED, {"rounds": rounds}])
    callbacks = [callback] if bonus else []
    with Runner(config, folder, callbacks=callbacks, show=False, **options) as runner:
        runner.run()
        model = callback._model
        runner.run()  # of which no round is left
        assert callback._model is model
        return weights(runner.network), runner.sampler.statistics, callback


def test_a_run_learns_from_the_bonus_and_goes_on_with_its_model(tmp_path):
    whole, statistics, callback = run(tmp_path / "whole", 3)
    assert callback.metrics["bonus"] > 0
    run(tmp_path / "parts", 1)
    parts, _, other = run(tmp_path / "parts", 3, resume=True)
    assert parts == whole
    assert other.metrics == callback.metrics
    plain, same, _ = run(tmp_path / "plain", 3, bonus=False)
    assert plain != whole
    # What is logged of episodes are the rewards of the env.
    assert statistics["return"] == statistics["length"]
    assert same["return"] == same["length"]


@pytest.mark.parametrize(("learners", "kind"), [(2, "games"), (1, "solutions")])
def test_runs_that_would_not_learn_from_the_bonus_are_refused(learners, kind):
    config = SimpleNamespace(learners=learners, collector=SimpleNamespace(kind=kind))
    with pytest.raises(InvalidOption, match=f"got learners={learners}, collector.kind='{kind}'"):
        CuriousRewards().on_start(SimpleNamespace(config=config))

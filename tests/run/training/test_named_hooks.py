"""Callbacks, loggers and networks by name, several evaluations, runs without an end, search log."""

from __future__ import annotations

import json
import sys
import textwrap

import numpy as np
import pytest
from training_runs import log, small

from plangym_ext.errors import InvalidOption, WrongKind
from plangym_ext.learn import Schedule
from plangym_ext.run import Runner, compose
from plangym_ext.run.settings.settings import Text, nested
from plangym_ext.run.training.trained import Trained

pytest.importorskip("torch")

HOOKS = """
    from torch import nn

    from plangym_ext.run import Callback, LogService

    class Rounds(Callback):
        def __init__(self):
            self.seen = []

        def state_dict(self):
            return {"seen": self.seen}

        def load_state_dict(self, state):
            self.seen = list(state["seen"])

        def on_round(self, runner, values):
            self.seen.append(runner.round)

    class Steps(LogService):
        def add(self, row):
            with (self._folder / "steps.txt").open("a") as file:
                file.write(f"{row['step']} {self._params['seed']}\\n")

    class Wave(nn.Module):
        def __init__(self, shape, config):
            super().__init__()
            self.inner = nn.Linear(shape[0], 8)

        def forward(self, x):
            return self.inner(x).sin()
"""


@pytest.fixture
def hooks(tmp_path, monkeypatch):
    (tmp_path / "own_hooks.py").write_text(textwrap.dedent(HOOKS))
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("own_hooks", None)


def rows(folder):
    return [json.loads(line) for line in (folder / "progress.jsonl").read_text().splitlines()]


def test_callbacks_loggers_and_layers_are_named_in_the_settings(hooks, tmp_path):
    named = {"callbacks": ["own_hooks:Rounds"], "loggers": ["own_hooks:Steps"]}
    named |= {"agent": {"kind": "own_hooks:Wave", "hidden": [16]}, "evaluation": {"every": 0}}
    with Runner(small({**named, "rounds": 2}), tmp_path / "run", show=False) as runner:
        runner.run()
        assert type(runner.network.body[0]).__name__ == "Wave"
    with Runner(small({**named, "rounds": 3}), tmp_path / "run", resume=True, show=False) as again:
        again.run()
        assert again._callbacks[0].seen == [1, 2, 3]
    assert (tmp_path / "run/steps.txt").read_text() == "48 0\n96 0\n144 0\n"


def test_classes_of_other_kinds_are_refused(hooks, tmp_path):
    for name in ("callbacks", "loggers"):
        with pytest.raises(WrongKind, match=f"settings: {name}: own_hooks:Wave must be a class"):
            Runner(small({name: ["own_hooks:Wave"]}), tmp_path / name, show=False)


def test_each_of_several_evaluations_has_its_own_player_and_columns(tmp_path):
    search = {"name": "search", "every": 2, "episodes": 1, "player": "planner"}
    search["planner"] = {"num_simulations": 2}
    several = {"evaluation": [{"every": 3, "episodes": 2, "stop_at": None}, search]}
    with Runner(small(several, {"rounds": 4}), tmp_path / "run", show=False) as runner:
        runner.run()
    found = [
        {key.split("/")[0] for key in row if key.endswith("/return")}
        for row in rows(tmp_path / "run")
    ]
    recent = [one - {"recent"} for one in found]
    assert recent == [set(), {"search"}, {"eval"}, {"search", "eval"}]
    # The settings that were written are read again.
    config = compose([tmp_path / "run/config.json"])
    assert config == runner.config
    assert [one.name for one in config.all_evaluations] == ["eval", "search"]


def test_evaluations_of_one_name_and_a_second_goal_are_refused():
    with pytest.raises(InvalidOption, match="different names"):
        small({"evaluation": [{"every": 1}, {"every": 2}]})
    with pytest.raises(InvalidOption, match="only the first evaluation"):
        small({"evaluation": [{"every": 1}, {"name": "b", "stop_at": 1.0}]})


def test_an_endless_run_ends_by_the_clock_and_goes_on(tmp_path):
    endless = {"rounds": None, "max_seconds": 1e-6, "evaluation": {"every": 0}}
    with Runner(small(endless), tmp_path / "endless", show=False) as runner:
        runner.run()
        assert (runner.round, runner.stopped) == (1, "max_seconds are over")
    for part, rounds in (("endless", 3), ("whole", 3)):
        config = small({"rounds": rounds, "evaluation": {"every": 0}})
        with Runner(config, tmp_path / part, resume=True, show=False) as runner:
            runner.run()
            assert runner.round == 3
    assert log(tmp_path / "endless") == log(tmp_path / "whole")


def test_the_log_has_means_over_the_searches_of_a_round(tmp_path):
    changed = {"rounds": 1, "planner": {"num_simulations": 5, "temperature": 0.0}}
    with Runner(small(changed), tmp_path / "run", show=False) as runner:
        seen = []
        planner = runner.sampler._agent.planner
        before = planner.plan_batch

        def plan_batch(*args, **options):
            seen.extend(before(*args, **options))
            return seen[-4:]

        planner.plan_batch = plan_batch
        runner.run()
    (row,) = rows(tmp_path / "run")
    assert len(seen) == 48
    budgets = [plan.budget for plan in seen]
    entropy = [-sum(w * np.log(w) for w in plan.weights if w) for plan in seen]
    wanted = {
        "depth": np.mean([plan.depth for plan in seen]),
        "entropy": np.mean(entropy),
        "value": float(f"{np.mean([plan.value for plan in seen]):.4g}"),  # see `search_row`
        "nodes": np.mean([one.expansions for one in budgets]),
        "model_steps": np.mean([one.model_steps for one in budgets]),
        "evaluator_rows": np.mean([one.evaluator_rows for one in budgets]),
    }
    assert {key: row[f"search/{key}"] for key in wanted} == pytest.approx(wanted)
    # An ending that a simulation comes to again adds no node.
    assert 4 < row["search/nodes"] <= 5


def test_a_network_plays_a_planner_run_without_a_search(tmp_path):
    policy = {"name": "plangym_ext.learn:NetworkPolicy", "temperature": 1.0, "epsilon": 0.1}
    greedy = {"player": "planner", "planner": {"temperature": 0.0, "epsilon": 0.0}}
    changed = {"rounds": 1, "planner": policy, "evaluation": {**greedy, "every": 1}}
    with Runner(small(changed), tmp_path / "run", show=False) as runner:
        runner.run()
        planner = runner.sampler._agent.planner
    (row,) = rows(tmp_path / "run")
    assert (planner.temperature, planner.epsilon) == (1.0, 0.1)
    assert (row["search/model_steps"], row["search/evaluator_rows"]) == (0, 1)


def test_beta_follows_its_schedule(tmp_path):
    beta = {"start": 0.4, "end": 1.0, "over": 6}
    changed = {"algorithm": {"replay": "prioritized", "beta": beta}, "evaluation": {"every": 0}}
    with Runner(small(changed, {"rounds": 2}), tmp_path / "run", show=False) as runner:
        assert runner.algorithm.replay.beta == 0.4
        runner.run()
        # As it was at the last draw, after one update less than were made.
        wanted = 0.4 + 0.6 * (runner.algorithm.updates - 1) / 6
        assert runner.algorithm.replay.beta == pytest.approx(wanted)


def test_options_of_planners_and_the_discount_follow_their_schedules(tmp_path):
    up, down = ({"start": 2 + n, "end": 6 - n, "over": 6} for n in (0, 4))
    gamma = {"start": 0.9, "end": 0.5, "over": 6}
    planner = {"num_simulations": up, "c_puct": down, "discount": gamma, "temperature": 1.0}
    search = {"every": 1, "episodes": 1, "player": "planner", "planner": {"temperature": 0.0}}
    changed = {"rounds": 4, "planner": planner, "evaluation": search, "env": {"max_steps": 5}}
    learning = {"algorithm": {"discount": gamma, "learning_starts": 1, "updates_per_round": 2}}
    with Runner(small(changed, learning), tmp_path / "run", show=False) as runner:
        asked, played = [], []
        training = runner.sampler._agent.planner
        for planner, told in ((training, asked), (runner.evaluation._player, played)):
            names = "num_simulations", "c_puct", "discount", "temperature"
            before = planner._plan_batch

            def plan_batch(request, planner=planner, told=told, names=names, before=before):
                told.append((runner.round, *(getattr(planner, name) for name in names)))
                return before(request)

            planner._plan_batch = plan_batch
        runner.run()

    def at(updates):
        done = min(1.0, updates / 6)
        return round(2 + 4 * done), 6 - 4 * done, 0.9 - 0.4 * done

    wanted = [(k, *at(2 * k), 1.0) for k in range(4)]
    assert sorted(set(asked)) == [pytest.approx(row) for row in wanted]
    # After the updates of a round, before it counts.
    wanted = [(k + 1, *at(2 * k + 2), 0.0) for k in range(4)]
    assert sorted(set(played)) == [pytest.approx(row) for row in wanted]
    with Trained(tmp_path / "run") as trained:
        trained.play(1)
        assert trained.player.num_simulations == 6


def test_schedules_of_planners_are_checked(tmp_path):
    wrong = {"start": 0, "end": -1.0, "over": 3}
    for name in ("c_puct", "root_noise", "dirichlet_alpha"):
        with pytest.raises(InvalidOption, match=rf"settings: planner\.{name}\.(start|end) must be"):
            Runner(small({"planner": {name: wrong}}), tmp_path / name, show=False)
    with pytest.raises(InvalidOption, match="no 'over'"):
        small({"planner": {"temperature": {"start": 1, "end": 0}}})
    gamma = {"start": 0.9, "end": 0.5, "over": 6}
    with pytest.raises(InvalidOption, match=r"discount and algorithm\.discount must be eq"):
        Runner(small({"planner": {"discount": gamma}}), tmp_path / "one", show=False)
    typed = small({}, nested({"planner.temperature": Text("{start = 1, end = 0, over = 5}")}))
    assert typed.planner.options["temperature"] == Schedule(start=1.0, end=0.0, over=5)


def test_the_discount_of_a_replay_follows_its_schedule(tmp_path):
    gamma = {"start": 1.0, "end": 0.5, "over": 4}
    parts = {"collector": {"num_envs": 2, "moves": 8}, "evaluation": {"every": 0, "stop_at": None}}
    learning = {"learning_starts": 1, "updates_per_step": 1 / 8, "discount": gamma}
    changed = {**parts, "rounds": 2, "algorithm": {**learning, "batch_size": 4}}
    with Runner(compose(["dqn_cartpole", changed]), tmp_path / "run", show=False) as runner:
        runner.run()
        # As it was at the last draw, after one update less than were made.
        wanted = 1.0 - 0.5 * (runner.algorithm.updates - 1) / 4
        assert runner.algorithm.replay.discount == pytest.approx(wanted)
        assert 0.5 < wanted < 1.0


@pytest.mark.parametrize("name", ["gae_lambda", "discount"])
def test_gae_lambda_and_the_discount_follow_their_schedules(name, tmp_path):
    line = {"start": 1.0, "end": 0.5, "over": 1}
    parts = {"collector": {"num_envs": 2, "moves": 8}, "evaluation": {"every": 0, "stop_at": None}}
    parts |= {"rounds": 2, "checkpoint_every": 0}
    found = []
    for value in (line, 1.0, 0.5):
        own = {"algorithm": {name: value, "batch_size": 16, "epochs": 1}}
        folder = tmp_path / str(len(found))
        with Runner(compose(["ppo_cartpole", parts, own]), folder, show=False) as runner:
            runner.run()
        found.append([row["train/value_loss"] for row in rows(folder)])
    # The first round has the first number; the second one another.
    assert found[0][0] == found[1][0] != found[2][0]
    assert found[0][1] != found[1][1]

"""Settings: what they are put together from, and what is refused."""

from __future__ import annotations

import json

import pytest

from plangym_ext.errors import InvalidOption, UnknownName
from plangym_ext.learn.schedule import OwnSchedule, Schedule
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.settings.config import RunConfig
from plangym_ext.run.settings.presets import PRESETS
from plangym_ext.run.settings.settings import (
    Text,
    build,
    differences,
    listed,
    merged,
    nested,
    plain,
)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_valid_and_survive_json(name):
    config = compose([name])
    again = build(RunConfig, json.loads(json.dumps(plain(config))))
    assert again == config


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"collector": {"num_env": 4}},
            "'collector.num_env' is not known; did you mean 'num_envs'",
        ),
        ({"evaluation": {"evry": 1}}, "; the section 'evaluation' has every, "),
        ({"roundz": 4}, "; the settings have env, "),
        ({"trainer": {"learning_rat": 1.0}}, "did you mean 'learning_rate'"),
        ({"planner": {"num_simulation": 4}}, "did you mean 'num_simulations'"),
        ({"trainer": {"name": "alphazer"}}, "did you mean 'alphazero'"),
        ({"planner": {"name": "mtcs"}}, "did you mean 'mcts'"),
        ({"round": 4}, "did you mean 'rounds'"),
        ({"evaluation": {"planner": {"temperatur": 0.0}}}, "did you mean 'temperature'"),
    ],
)
def test_unknown_keys_are_errors_with_a_suggestion(settings, message):
    with pytest.raises(UnknownName, match=message):
        compose(["cartpole", settings])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rounds": "many"}, "rounds must be an int; got 'many'"),
        ({"rounds": True}, "rounds must be an int"),
        ({"rounds": 0}, "rounds must be at least 1; got 0"),
        ({"trainer": {"learning_rate": "fast"}}, "trainer.learning_rate must be a float"),
        ({"network": {"hidden": [64, "x"]}}, "network.hidden must be an int; got 'x'"),
        ({"env": {"trust": 1}}, "env.trust must be true or false"),
        ({"replay": {"kind": "unifrm"}}, "did you mean 'uniform'"),
        ({"collector": {"num_envs": 2, "n_workers": 3}}, "at most num_envs, 2"),
        (
            {"starts": {"share": 1.5}},
            r"starts.share must be .* in \[0.0, 1.0\]; got 1.5",
        ),
        (
            {"starts": {"share": float("nan")}},
            r"starts.share must be .* in \[0.0, 1.0\]; got nan",
        ),
        ({"env": 3}, "env must be a section; got 3"),
        ({"env": {"kwargs": 3}}, "env.kwargs must be a section, or a table .*; got '3'"),
        ({"env": {"kwargs": None}}, "env.kwargs must be a section"),
        ({"evaluation": {"planner": 3}}, "evaluation.planner must be a section"),
        ({"planner": {"name": "sts"}, "evaluation": 3}, "evaluation must be a section; got 3"),
        ({"planner": {"name": "sts"}, "evaluation": None}, "evaluation must be a section"),
        ({"env": {1: 2}}, r"the names in env must be texts; got 1\. Write it in quotes"),
        ({True: 2}, r"the names in the settings must be texts; got True"),
        ({"replay": {"min_rows": 50, "capacity": 20}}, r"at most replay.capacity, 20.*got 50"),
        ({"threads": 100_000}, "threads must be at most 1024; got 100000"),
        ({"evaluation": {"stop_at": float("nan")}}, "evaluation.stop_at must be finite or none"),
        ({"seed": 10**20}, r"seed must be less than 2\*\*63; got 1000"),
    ],
)
def test_values_of_another_kind_are_errors(settings, message):
    with pytest.raises(InvalidOption, match=message):
        compose([settings])


def test_learning_can_begin():
    # A balanced one has so many rows of each group.
    compose(["cartpole", {"replay": {"kind": "balanced", "min_rows": 50, "capacity": 20}}])
    with pytest.raises(InvalidOption, match=r"learning_starts must be at most capacity, 20"):
        compose(["expert_cartpole", {"algorithm": {"learning_starts": 30, "capacity": 20}}])


def test_later_sources_count_and_files_are_read_by_their_ending(tmp_path):
    (tmp_path / "a.toml").write_text("seed = 3\n[trainer]\nl2 = 0.5\n[env.kwargs]\nn = 5\n")
    (tmp_path / "b.json").write_text('{"trainer": {"l2": 0.25}, "network": {"hidden": [8]}}')
    config = compose(["cartpole", tmp_path / "a.toml", str(tmp_path / "b.json"), {"seed": 4}])
    assert (config.seed, config.trainer.config.l2, config.network.hidden) == (4, 0.25, (8,))
    assert config.env.kwargs == {"n": 5}
    # What was not changed is the preset's.
    assert config.planner.options["num_simulations"] == 16


def test_yaml_files(tmp_path):
    pytest.importorskip("yaml")
    (tmp_path / "a.yaml").write_text("trainer:\n  learning_rate: 0.5\nnetwork:\n  hidden: [8, 4]\n")
    config = compose([tmp_path / "a.yaml"])
    assert (config.trainer.config.learning_rate, config.network.hidden) == (0.5, (8, 4))


@pytest.mark.parametrize("number", ["3e-4", "3.0e-4", "3E-4", "0.0003", "3.e-04"])
def test_yaml_has_the_numbers_that_toml_has(number, tmp_path):
    pytest.importorskip("yaml")
    (tmp_path / "a.yaml").write_text(f"trainer:\n  learning_rate: {number}\n")
    assert compose([tmp_path / "a.yaml"]).trainer.config.learning_rate == 3e-4


@pytest.mark.parametrize("keys", [["env.a", "env.a.b"], ["env.a.b", "env.a"]])
def test_a_key_is_a_value_or_a_section(keys):
    with pytest.raises(
        InvalidOption, match=r"env\.a must be a value or a section; got .* env\.a\.b="
    ):
        nested(dict.fromkeys(keys, 3))


def test_files_that_cannot_be_read_are_named(tmp_path):
    (tmp_path / "bad.toml").write_text("seed = = 3")
    with pytest.raises(InvalidOption, match=r"bad\.toml is no toml"):
        compose([tmp_path / "bad.toml"])
    (tmp_path / "old.toml").write_bytes("# Größe\nseed = 3".encode("latin-1"))
    with pytest.raises(InvalidOption, match=r"old\.toml is no text in UTF-8"):
        compose([tmp_path / "old.toml"])
    with pytest.raises(InvalidOption, match=r"none\.json cannot be read"):
        compose([tmp_path / "none.json"])
    with pytest.raises(UnknownName, match="did you mean 'cartpole'"):
        compose(["cartpol"])


def test_typed_text_is_read_as_the_kind_that_is_wanted():
    typed = {
        "rounds": Text("7"),
        "trainer.l2": Text("1e-3"),
        "network.hidden": Text("32,16"),
        "network.channels": Text("[8, 4]"),
        "env.frameskip": Text("none"),
        "env.trust": Text("true"),
        "env.id": Text("5"),
        "env.kwargs.n": Text("5"),
        "env.kwargs.dim": Text("[6, 6]"),
        "env.kwargs.word": Text("abc"),
        "evaluation.planner.temperature": Text("0.5"),
    }
    config = compose([nested(typed)])
    assert (config.rounds, config.trainer.config.l2, config.network.hidden) == (7, 1e-3, (32, 16))
    assert config.network.channels == (8, 4)
    assert (config.env.frameskip, config.env.trust, config.env.id) == (None, True, "5")
    assert config.env.kwargs == {"n": 5, "dim": [6, 6], "word": "abc"}
    assert config.evaluation.planner == {"temperature": 0.5}


def test_numbers_of_a_trainer_may_have_a_schedule():
    line = {"start": 1e-3, "end": 0, "over": 500}
    settings = {"trainer": {"learning_rate": line, "l2": "schedules:mine", "max_grad_norm": None}}
    config = compose(["cartpole", settings])
    trainer = config.trainer.config
    assert trainer.learning_rate == Schedule(start=1e-3, end=0.0, over=500)
    assert (trainer.l2, trainer.max_grad_norm) == (OwnSchedule("schedules:mine"), None)
    assert build(RunConfig, json.loads(json.dumps(plain(config)))) == config
    typed = nested({"trainer.learning_rate": Text("{start = 1e-3, end = 0, over = 500}")})
    assert compose(["cartpole", typed]).trainer.config.learning_rate == trainer.learning_rate
    # A number takes the place of a schedule, and is one option of the command line.
    assert compose([settings, {"trainer": {"learning_rate": 0.5}}]).trainer.config.l2 == trainer.l2
    keys = [setting.key for setting in listed(config)]
    assert "trainer.learning_rate" in keys
    assert "trainer.learning_rate.start" not in keys
    with pytest.raises(UnknownName, match="did you mean 'start'"):
        compose([{"trainer": {"l2": {**line, "strat": 3}}}])
    with pytest.raises(InvalidOption, match=r"l2 must be a number, or a schedule .* no 'over'"):
        compose([{"trainer": {"l2": {"start": 3, "end": 4}}}])


def test_a_section_of_another_name_begins_anew():
    first = {"planner": {"name": "mcts", "c_puct": 2.0}, "seed": 1}
    assert merged(first, {"planner": {"c_visit": 1.0}})["planner"] == {
        "name": "mcts",
        "c_puct": 2.0,
        "c_visit": 1.0,
    }
    assert merged(first, {"planner": {"name": "sts"}})["planner"] == {"name": "sts"}


def test_how_a_planner_is_evaluated_goes_with_it():
    assert compose(["cartpole"]).evaluation.planner == {"temperature": 0.0, "root_noise": 0.0}
    changed = compose(["cartpole", {"planner": {"name": "shooting"}}])
    assert (changed.planner.options, changed.evaluation.planner) == ({}, {})
    assert changed.evaluation.every == compose(["cartpole"]).evaluation.every


def test_differences_name_key_and_both_values():
    found = differences({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}})
    assert found == ["a.c: 3 there, 2 here"]

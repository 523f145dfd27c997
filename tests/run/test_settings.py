"""Settings: what they are put together from, and what is refused."""

from __future__ import annotations

import functools
import itertools
import json
import time

import pytest
from clock_bounds import within

from plangym_ext.errors import InvalidOption, PlangymExtError, UnknownName
from plangym_ext.learn.schedule import OwnSchedule, Schedule
from plangym_ext.planners import PLANNERS, load_planner, options_of
from plangym_ext.run.settings.compose import PRESETS, compose
from plangym_ext.run.settings.config import RunConfig
from plangym_ext.run.settings.sections import PlannerSettings
from plangym_ext.run.settings.settings import (
    Text,
    build,
    differences,
    listed,
    merged,
    nested,
    plain,
)
from plangym_ext.run.training.runner import Runner


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_valid_and_survive_json(name):
    config = compose([name])
    again = build(RunConfig, json.loads(json.dumps(plain(config))))
    assert again == config


@pytest.mark.parametrize("name", PRESETS)
def test_a_copy_of_a_preset_is_the_same_run(name, tmp_path):
    copy = tmp_path / "mine.toml"
    copy.write_bytes(PRESETS[name].path.read_bytes())
    assert compose([copy]) == compose([name])
    assert PRESETS[name].about


def test_a_file_says_none_with_a_text(tmp_path):
    file = tmp_path / "a.toml"
    file.write_text('[algorithm]\nmax_grad_norm = "none"\n[env]\nframeskip = "None"\n')
    config = compose(["ppo_cartpole", file])
    assert config.algorithm.config.max_grad_norm is None
    assert config.env.frameskip is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"collector": {"num_env": 4}},
            "'collector.num_env' is not known.*did you mean 'num_envs'",
        ),
        ({"evaluation": {"evry": 1}}, "; the section 'evaluation' has every, "),
        ({"roundz": 4}, "; the settings have env, "),
        ({"algorithm": {"learning_rat": 1.0}}, "did you mean 'learning_rate'"),
        ({"planner": {"num_simulation": 4}}, "did you mean 'num_simulations'"),
        ({"algorithm": {"name": "alphazer"}}, "did you mean 'alphazero'"),
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
        ({"rounds": 0}, "rounds must be an integer >= 1; got 0"),
        ({"algorithm": {"learning_rate": "fast"}}, "algorithm.learning_rate must be a float"),
        ({"agent": {"hidden": [64, "x"]}}, "agent.hidden must be an int; got 'x'"),
        ({"evaluation": {"sample": 1}}, "evaluation.sample must be true or false"),
        ({"env": {"trust": True}}, "env.trust is no setting, .* type train --trust"),
        ({"algorithm": {"name": "td", "replay": "unifrm"}}, "did you mean 'uniform'"),
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
        ({"env": {1: 2}}, r"the names in env must be strings; got 1\. Write it in quotes"),
        ({True: 2}, r"the names in the settings must be strings; got True"),
        (
            {"algorithm": {"name": "td", "learning_starts": 50, "capacity": 20}},
            r"learning_starts must be at most capacity, 20.*got 50",
        ),
        ({"threads": 100_000}, "threads must be at most 1024; got 100000"),
        (
            {"evaluation": {"stop_at": float("nan")}},
            "stop_at must be a finite number; got nan",
        ),
        ({"seed": 10**20}, r"seed must be at most 9223372036854775807; got 1000"),
    ],
)
def test_values_of_another_kind_are_errors(settings, message):
    with pytest.raises(InvalidOption, match=message):
        compose([settings])


def test_learning_can_begin():
    # A balanced one has so many rows of each group.
    few = {"learning_starts": 50, "capacity": 20}
    compose(["cartpole", {"algorithm": {"replay": "balanced", **few}}])
    with pytest.raises(InvalidOption, match=r"learning_starts must be at most capacity, 20"):
        compose(["expert_cartpole", {"algorithm": {"learning_starts": 30, "capacity": 20}}])


def test_later_sources_count_and_files_are_read_by_their_ending(tmp_path):
    (tmp_path / "a.toml").write_text("seed = 3\n[algorithm]\nl2 = 0.5\n[env.kwargs]\nn = 5\n")
    (tmp_path / "b.json").write_text('{"algorithm": {"l2": 0.25}, "agent": {"hidden": [8]}}')
    config = compose(["cartpole", tmp_path / "a.toml", str(tmp_path / "b.json"), {"seed": 4}])
    assert (config.seed, config.algorithm.config.l2) == (4, 0.25)
    assert config.agent.config.hidden == (8,)
    assert config.env.kwargs == {"n": 5}
    # What was not changed is the preset's.
    assert config.planner.options["num_simulations"] == 16


def test_yaml_files(tmp_path):
    pytest.importorskip("yaml")
    (tmp_path / "a.yaml").write_text("algorithm:\n  learning_rate: 0.5\nagent:\n  hidden: [8, 4]\n")
    config = compose([tmp_path / "a.yaml"])
    assert (config.algorithm.config.learning_rate, config.agent.config.hidden) == (0.5, (8, 4))


ALIASED = "env:\n  kwargs:\n    - &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"    - &{b} [{','.join(['*' + a] * 10)}]\n" for a, b in itertools.pairwise("abcdef")
)
MERGED = "a: &a {x: 1}\n" + "".join(
    f"{b}: &{b}\n  <<: [{','.join(['*' + a] * 10)}]\n" for a, b in itertools.pairwise("abcdefgh")
)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.yaml", "rounds: 3\nrounds: 5", "'rounds' occurs twice in a section"),
        ("a.yaml", "env:\n  id: a\n  id: b", "'id' occurs twice in a section"),
        ("a.json", '{"env": {"id": "a", "id": "b"}}', "'id' occurs twice in a section"),
        ("a.toml", "rounds = 1\nrounds = 2", "Cannot overwrite a value"),
        ("a.yaml", "rounds: 1:30", "line 1: 1:30 may mean several things"),
        ("a.yaml", "rounds: 010", "line 1: 010 may mean several things"),
        ("a.yaml", "env:\n  kwargs:\n    day: 2020-01-02", "line 3: 2020-01-02 may mean"),
        ("a.yaml", "algorithm:\n  learning_rate: 1:30.5", "may mean several things"),
        ("a.yaml", "env: &a\n  kwargs: *a", "line 1: it contains itself"),
        ("a.yaml", ALIASED, "more than 10,000 values"),
        ("a.yaml", MERGED, "more than 10,000 values"),
        ("a.yaml", "env: " + "[" * 3000, "more than 64 nested brackets"),
        ("a.yaml", "- " * 3000, "more than 64 nested levels"),
        ("a.json", '{"env":' * 1000 + "1" + "}" * 1000, "more than 64 nested brackets"),
        ("a.toml", "a = " + "[" * 5000 + "]" * 5000, "more than 64 nested brackets"),
        ("a.toml", f"[{'.'.join('a' * 3000)}]", "settings: "),
        ("a.yaml", "a: !!python/object/apply:os.system [id]", "could not determine a constructor"),
        ("a.json", " " * (1 << 19), "at most 262,144 bytes"),
    ],
)
def test_a_file_of_settings_says_one_thing_or_is_refused_in_a_line(tmp_path, name, text, message):
    pytest.importorskip("yaml")
    (tmp_path / name).write_text(text)
    began = time.monotonic()
    with pytest.raises(PlangymExtError, match=message) as caught:
        compose([tmp_path / name])
    assert "\n" not in str(caught.value)
    assert within(time.monotonic() - began, 10)


@pytest.mark.parametrize("number", ["1" + 400 * "0", "-0x" + 6000 * "f", "0x" + 6000 * "f"])
@pytest.mark.parametrize("key", ["rounds", "algorithm.learning_rate", "env.kwargs.size"])
def test_a_number_larger_than_any_float_is_refused_in_a_line(key, number, tmp_path):
    (tmp_path / "a.toml").write_text(f"{key} = {number}")
    for source in (tmp_path / "a.toml", nested({key: int(number, 0)})):
        with pytest.raises(InvalidOption, match=r"^settings: .*(no toml|308 digits)"):
            compose(["ppo_cartpole", source])


def test_yaml_may_name_a_value_again(tmp_path):
    pytest.importorskip("yaml")
    agent = "agent:\n  name: network\n  hidden: &h [8, 4]\n"
    text = agent + "env:\n  kwargs: {n: 0x10, a: *h, b: 1_000, c: -3}\n"
    (tmp_path / "a.yaml").write_text(text)
    kwargs = compose([tmp_path / "a.yaml"]).env.kwargs
    assert kwargs == {"n": 16, "a": [8, 4], "b": 1000, "c": -3}


@pytest.mark.parametrize("number", ["3e-4", "3.0e-4", "3E-4", "0.0003", "3.e-04"])
def test_yaml_has_the_numbers_that_toml_has(number, tmp_path):
    pytest.importorskip("yaml")
    (tmp_path / "a.yaml").write_text(f"algorithm:\n  learning_rate: {number}\n")
    assert compose([tmp_path / "a.yaml"]).algorithm.config.learning_rate == 3e-4


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
        "algorithm.l2": Text("1e-3"),
        "agent.hidden": Text("32,16"),
        "agent.channels": Text("[8, 4]"),
        "env.frameskip": Text("none"),
        "agent.layer_norm": Text("true"),
        "env.id": Text("5"),
        "env.kwargs.n": Text("5"),
        "env.kwargs.dim": Text("[6, 6]"),
        "env.kwargs.word": Text("abc"),
        "evaluation.planner.temperature": Text("0.5"),
    }
    config = compose(["narrow_path", nested(typed)])
    network = config.agent.config
    assert (config.rounds, config.algorithm.config.l2, network.hidden) == (7, 1e-3, (32, 16))
    assert network.channels == (8, 4)
    assert (config.env.frameskip, network.layer_norm, config.env.id) == (None, True, "5")
    assert config.env.kwargs == {"n": 5, "dim": [6, 6], "word": "abc"}
    assert config.evaluation.planner["temperature"] == 0.5


def test_numbers_of_an_algorithm_may_have_a_schedule():
    line = {"start": 1e-3, "end": 0, "over": 500}
    numbers = {"learning_rate": line, "l2": "schedules:mine", "max_grad_norm": None}
    settings = {"algorithm": numbers}
    config = compose(["cartpole", settings])
    learner = config.algorithm.config
    assert learner.learning_rate == Schedule(start=1e-3, end=0.0, over=500)
    assert (learner.l2, learner.max_grad_norm) == (OwnSchedule("schedules:mine"), None)
    assert build(RunConfig, json.loads(json.dumps(plain(config)))) == config
    typed = nested({"algorithm.learning_rate": Text("{start = 1e-3, end = 0, over = 500}")})
    assert compose(["cartpole", typed]).algorithm.config.learning_rate == learner.learning_rate
    # A number takes the place of a schedule, and is one option of the command line.
    number = compose(["cartpole", settings, {"algorithm": {"learning_rate": 0.5}}])
    assert number.algorithm.config.l2 == learner.l2
    keys = [setting.key for setting in listed(config)]
    assert "algorithm.learning_rate" in keys
    assert "algorithm.learning_rate.start" not in keys
    with pytest.raises(UnknownName, match="did you mean 'start'"):
        compose(["cartpole", {"algorithm": {"l2": {**line, "strat": 3}}}])
    with pytest.raises(InvalidOption, match=r"l2 must be a number, or a schedule .* no 'over'"):
        compose(["cartpole", {"algorithm": {"l2": {"start": 3, "end": 4}}}])


def test_a_section_of_another_name_begins_anew():
    first = {"planner": {"name": "mcts", "c_puct": 2.0}, "seed": 1}
    assert merged(first, {"planner": {"c_visit": 1.0}})["planner"] == {
        "name": "mcts",
        "c_puct": 2.0,
        "c_visit": 1.0,
    }
    assert merged(first, {"planner": {"name": "sts"}})["planner"] == {"name": "sts"}


def test_how_a_planner_is_evaluated_goes_with_it():
    layers = ["cartpole", {"evaluation": {"planner": {"num_simulations": 9}}}]
    one = compose(layers)
    assert one.evaluation.planner == {"num_simulations": 9}
    changed = compose([*layers, {"planner": {"name": "shooting"}}])
    assert (changed.planner.options, changed.evaluation.planner) == ({}, {})
    assert changed.evaluation.every == one.evaluation.every


@pytest.mark.parametrize("name", PLANNERS)
def test_a_planner_is_evaluated_without_its_noise(name):
    cls = load_planner(name)
    known = [option.name for option in options_of(cls)]
    noisy = {key: 0.25 for key in ("root_noise", "gumbel_scale") if key in known}
    assert {*cls.noise_options} >= {*noisy}
    training = PlannerSettings(name, {"discount": 0.5, **noisy})
    found = training.evaluated({}, "evaluation.planner").options
    assert found == {"discount": 0.5, **dict.fromkeys(cls.noise_options, 0.0)}
    assert training.evaluated(noisy, "evaluation.planner").options.items() >= noisy.items()


def test_differences_name_key_and_both_values():
    found = differences({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}})
    assert found == ["a.c: 3 there, 2 here"]


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        (["cartpole", {"planner": {"discount": 0.9}}], r"planner\.discount.*got 0\.9 and 0\.99"),
        (["cartpole", {"algorithm": {"discount": 0.9}}], r"algorithm\.discount.*0\.99 and 0\.9"),
        (["expert_cartpole", {"planner": {"discount": 0.9}}], r"planner\.discount.*0\.9 and 0\.99"),
        (["expert_cartpole", {"algorithm": {"discount": 0.9}}], r"algorithm\.discount"),
    ],
)
def test_values_are_learned_and_added_to_rewards_by_one_discount(sources, message, tmp_path):
    with pytest.raises(InvalidOption, match=message):
        compose(sources)
    # Runs that were made so before can be read; a new one is not begun.
    config = build(RunConfig, functools.reduce(merged, [plain(compose(sources[:1])), sources[1]]))
    with pytest.raises(InvalidOption, match=message):
        Runner(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_algorithm_whose_values_are_the_planners_own_has_no_say():
    settings = {"algorithm": {"value_target": "value", "discount": 0.5}}
    assert compose(["cartpole", settings]).planner.discount == 0.99
    both = {"planner": {"discount": 0.9}, "algorithm": {"discount": 0.9}}
    assert compose(["cartpole", both]).algorithm.config.discount == 0.9


def test_whole_numbers_may_have_an_exponent():
    config = compose(["dqn_cartpole", {"algorithm": {"capacity": 1e4}, "rounds": Text("1e2")}])
    assert (config.algorithm.config.capacity, config.rounds) == (10_000, 100)
    for wrong in ("1e-2", "1.5e0", "1e400", "1e60", "e", "nan"):
        with pytest.raises(InvalidOption, match="rounds must be an int"):
            compose(["dqn_cartpole", {"rounds": Text(wrong)}])
    with pytest.raises(InvalidOption, match="capacity"):
        compose(["dqn_cartpole", {"algorithm": {"capacity": 1.5}}])

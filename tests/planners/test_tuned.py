"""Options that were tuned for some envs: planners take them, and the command begins with them."""

from __future__ import annotations

import argparse

import pytest

from plangym_ext.planners import load_planner, options_of
from plangym_ext.planners.options import TUNED, TUNED_FAMILIES, tuned_options
from plangym_ext.registry import find_spec
from plangym_ext.run.commands.plan import add_planner_options, chosen_options

ENV = "plangym_ext/cheetah-run-v0"


def chosen(*given):
    parser = argparse.ArgumentParser()
    add_planner_options(parser, given)
    options, _ = parser.parse_known_args(given)
    return chosen_options(options)


@pytest.mark.parametrize("env", TUNED)
def test_tuned_options_are_of_an_env_that_there_is(env):
    assert find_spec(env).id == env


@pytest.mark.parametrize("tuned", [*TUNED.values(), *TUNED_FAMILIES.values()])
def test_tuned_options_are_options_of_planners(tuned):
    for planner, options in tuned.items():
        made = load_planner(planner)(**options)
        for name, value in options.items():
            assert getattr(made, name) == value


def test_the_command_begins_with_what_was_tuned_and_what_is_typed_counts():
    own = {option.name: option.default for option in options_of(load_planner("icem"))}
    tuned = tuned_options(ENV, "icem")
    assert tuned
    found = chosen(ENV, "--planner", "icem")
    assert found.items() >= tuned.items()
    rest = {name: value for name, value in found.items() if name not in tuned}
    assert rest.items() <= own.items()
    assert chosen(ENV, "--planner", "icem", "--horizon", "7")["horizon"] == 7
    assert chosen("Pendulum-v1", "--planner", "icem")["horizon"] == own["horizon"]


def test_a_family_shares_what_was_tuned():
    assert tuned_options("ALE/Pong-v5", "mcts") == TUNED_FAMILIES["ALE/"]["mcts"]
    assert chosen("ALE/Alien-v5", "--planner", "sts")["num_expansions"] == 13
    assert (
        chosen("ALE/Alien-v5", "--planner", "sts", "--num-expansions", "2")["num_expansions"] == 2
    )
    assert chosen("ALE/Alien-v5")["keep_rollouts"]
    assert tuned_options("ALE/Alien-v5", "icem") == {}
    assert tuned_options("FooALE/Alien-v5", "mcts") == {}


def test_an_env_without_tuned_options_has_none():
    assert tuned_options("Pendulum-v1", "icem") == {}
    # What is returned is the caller's.
    tuned_options(ENV, "icem")["horizon"] = 0
    assert tuned_options(ENV, "icem")["horizon"] > 0

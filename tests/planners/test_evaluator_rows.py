"""Budgets tell of every observation that evaluators, policies and heuristics were given."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import plangym_ext
from plangym_ext.planners import PLANNERS, load_planner, options_of

STATES, ACTIONS = 40, 3
DISCRETE = ("evaluator", "rollout_policy", "heuristic")
CONTINUOUS = ("evaluator", "policy")
# What else a planner needs, or what has it ask in yet another way.
VARIANTS = {
    "mcts": [{}, {"rollout_depth": 3}, {"selection": "gumbel"}, {"keep_tree": True}],
    "best-first": [{"state_key": "obs"}],
}


class Counted:
    """A function of observations that counts the rows it is asked about."""

    def __init__(self, answer):
        self.answer, self.rows = answer, 0

    def __call__(self, obs):
        self.rows += len(obs)
        return self.answer(obs)


def discrete_answers(seed):
    priors = np.random.default_rng(seed).dirichlet(np.ones(ACTIONS), size=STATES)

    def looked_up(obs):
        return priors[obs[:, 0].astype(int)]

    return {
        "evaluator": lambda obs: (looked_up(obs), -obs[:, 0]),
        "rollout_policy": looked_up,
        "heuristic": lambda obs: obs[:, 0] / 8,
    }


def continuous_answers():
    return {"evaluator": lambda obs: (None, -(obs[:, 0] ** 2)), "policy": lambda obs: -obs[:, 1:2]}


def asking(names):
    """The options by which planners ask of observations, each alone, in every variant."""
    return [
        pytest.param(name, option.name, more, id=f"{name}-{option.name}-{i}")
        for name in PLANNERS
        for option in options_of(load_planner(name))
        if option.name in names and is_continuous(name) == (names is CONTINUOUS)
        for i, more in enumerate(VARIANTS.get(name, [{}]))
    ]


def is_continuous(name):
    return "horizon" in {field.name for field in dataclasses.fields(load_planner(name))}


def made(name, asked, more):
    return load_planner(name)(24, **asked, **more)


@pytest.mark.parametrize(("name", "option", "more"), asking(DISCRETE))
def test_rows_told_are_rows_asked(models, name, option, more):
    for seed in range(4):
        asked = Counted(discrete_answers(seed)[option])
        planner = made(name, {option: asked}, more)
        model = models.random_mdp(seed, states=STATES)
        states = np.stack([model.state(i) for i in (0, 1)])
        obs = np.array([[0.0], [1.0]], np.float32)
        # The second time as well, where trees and ways are kept.
        for _ in range(2):
            before = asked.rows
            rngs = [np.random.default_rng(i) for i in (seed, seed + 1)]
            plans = planner.plan_batch(model, states, rngs=rngs, obs=obs)
            told = sum(plan.budget.evaluator_rows for plan in plans)
            assert told == asked.rows - before


@pytest.mark.parametrize(("name", "option", "more"), asking(CONTINUOUS))
def test_rows_told_are_rows_asked_of_sequences(name, option, more):
    asked = Counted(continuous_answers()[option])
    planner = made(name, {option: asked}, {"horizon": 4, **more})
    with plangym_ext.make("Pendulum-v1") as env:
        state, obs, _ = env.reset(seed=0)
        for seed in range(2):
            before = asked.rows
            plan = planner.plan(env, state, rng=seed, obs=obs)
            assert plan.budget.evaluator_rows == asked.rows - before > 0

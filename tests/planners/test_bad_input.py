"""What cannot work is refused by a message that names the planner, the matter and a way out."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from plangym_ext.errors import InvalidOption
from plangym_ext.planners import MCTS, PLANNERS, STS, GraphSearch, load_planner, options_of
from plangym_ext.planners.continuous.base import Shooting

EVALUATED = [
    name
    for name in PLANNERS
    if any(option.name == "evaluator" for option in options_of(load_planner(name)))
]


@pytest.mark.parametrize("name", PLANNERS)
def test_a_planner_for_other_actions_names_itself_and_another(models, name):
    planner = load_planner(name)
    model = models.chain(3)
    if issubclass(planner, Shooting):
        model.action_space = Discrete(2)
        kind, remedy = "continuous", "planner for discrete actions"
    else:
        model.action_space = Box(-1, 1, (2,))
        kind, remedy = "discrete", "planner for continuous actions"
    with pytest.raises(InvalidOption, match=f"{planner.__name__}: .*{kind} actions; got") as error:
        planner(4).plan(model, model.state(0), rng=0, obs=np.zeros(1))
    assert remedy in str(error.value)


@pytest.mark.parametrize("cls", [MCTS, STS, GraphSearch])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (lambda n: np.full(n, np.nan), r"\(1,\) finite numbers.*1 not finite\. Return \(prior"),
        (lambda n: np.zeros((n, 2)), r"\(1,\) finite numbers.*got shape \(1, 2\)"),
    ],
)
def test_a_broken_evaluator_is_named_with_its_planner(models, cls, value, message):
    planner = cls(2, evaluator=lambda obs: (None, value(len(obs))))
    with pytest.raises(ValueError, match=f"{cls.__name__}: evaluator: value must be {message}"):
        planner.plan(models.chain(3), models.chain(3).state(0), rng=0, obs=np.zeros(1))


@pytest.mark.parametrize("name", EVALUATED)
def test_no_planner_takes_values_that_are_not_numbers(models, name):
    planner = load_planner(name)(2, evaluator=lambda obs: (None, np.full(len(obs), np.nan)))
    model = models.chain(6)
    with pytest.raises(ValueError, match=r"evaluator: value must be .* not finite"):
        planner.plan(model, model.state(0), rng=0, obs=np.zeros(1))


@pytest.mark.parametrize("name", ["mcts", "sts", "open-loop", "graph", "rollout-iw", "iw"])
def test_a_full_tree_gives_a_plan_that_says_so(models, name):
    model = models.random_mdp(1, states=400)
    planner = load_planner(name)(200, capacity=8)
    plan = planner.plan(model, model.state(0), rng=0, obs=np.zeros(1))
    assert plan.full
    assert plan.budget.expansions <= 7

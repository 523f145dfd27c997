from __future__ import annotations

import pickle

import numpy as np
import pytest

from plangym_ext.errors import InvalidOption, UnknownName
from plangym_ext.planners import (
    CEM,
    DIAL,
    ICEM,
    IW,
    MCTS,
    MPPI,
    PLANNERS,
    STS,
    GraphSearch,
    PredictiveSampling,
    RolloutIW,
    load_planner,
    options_of,
)
from plangym_ext.planners.continuous.base import Shooting


@pytest.mark.parametrize("name", PLANNERS)
def test_every_option_of_every_planner_is_described(name):
    planner = load_planner(name)
    options = {option.name: option for option in options_of(planner)}
    assert {"num_simulations", "discount", "max_model_steps", "max_seconds"} <= set(options)
    for option in options.values():
        assert option.help, f"{name}: {option.name} is not described"
        assert option.kind is not None or option.default is None, option
    # What stands there is what the constructor takes.
    planner(**{option.name: option.default for option in options.values()})


@pytest.mark.parametrize("name", PLANNERS)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_simulations": 0}, "num_simulations must be an integer >= 1; got 0"),
        ({"max_model_steps": 0}, "max_model_steps must be an integer >= 1; got 0"),
        ({"max_seconds": 0}, "max_seconds must be a finite number .* got 0"),
        ({"discount": 1.5}, "discount must be a finite number .* got 1.5"),
    ],
)
def test_no_planner_takes_an_empty_budget(name, options, message):
    planner = load_planner(name)
    with pytest.raises(InvalidOption, match=f"{planner.__name__}: {message}"):
        planner(**options)


def named_options():
    """Every option that is one of some names, by planner."""
    names = {"value_scale", "selection", "choice", "spline", "score", "state_key"}
    return [
        (planner, option.name)
        for planner in PLANNERS
        for option in options_of(load_planner(planner))
        if option.name in names
    ]


@pytest.mark.parametrize(("name", "option"), named_options())
@pytest.mark.parametrize("wrong", [[], {}, np.array([1, 2]), np.array(3), np.array("tree"), 7])
def test_what_is_no_name_is_refused_as_an_unknown_one(name, option, wrong):
    with pytest.raises(UnknownName, match=f"{option} must be one of .*; got "):
        load_planner(name)(8, **{option: wrong})


CONTINUOUS = [name for name in PLANNERS if issubclass(load_planner(name), Shooting)]


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.parametrize("steps", [10_001, 10**12])
def test_horizons_that_no_memory_holds_are_refused(name, steps):
    with pytest.raises(InvalidOption, match=f"horizon must be at most 10000; got {steps}"):
        load_planner(name)(8, horizon=steps)


@pytest.mark.parametrize("cls", [PredictiveSampling, MPPI, DIAL])
def test_minus_zero_is_zero(models, cls):
    model = models.Integrator()
    plans = [
        cls(8, horizon=3, noise_std=std).plan(model, model.state(0.6), rng=0) for std in (0.0, -0.0)
    ]
    assert plans[0].actions.tobytes() == plans[1].actions.tobytes()


def test_options_know_their_kind():
    options = {option.name: option for option in options_of(MCTS)}
    assert options["wave_size"][1:4] == (int, False, 8)
    assert options["rollout_depth"][1:4] == (int, True, None)
    assert options["keep_tree"][1:4] == (bool, False, False)
    assert options["evaluator"].kind is None
    assert options["c_puct"].help.startswith('weight of the bonus of "puct" and')
    assert options["c_puct"].help.endswith("on `value_scale`.")


@pytest.mark.parametrize("most", [9, 10, 57, 200])
def test_a_search_never_takes_more_steps_than_it_may(models, most):
    model = models.random_mdp(1, states=400)
    plan = MCTS(max_model_steps=most).plan(model, model.state(0), rng=0)
    # A simulation may take 1 + 8 steps, and is not begun if it could take too many.
    assert most - 8 <= plan.budget.model_steps <= most
    assert plan.budget.model_steps == model.model_steps
    assert not plan.full


def test_the_first_limit_to_be_reached_ends_the_search(models):
    model = models.random_mdp(1, states=400)
    plan = MCTS(5, max_model_steps=1000).plan(model, model.state(0), rng=0)
    assert plan.visits.sum() == 5
    with pytest.raises(InvalidOption, match=r"max_model_steps must be at least 9, .* got 8"):
        MCTS(5, max_model_steps=8).plan(model, model.state(0), rng=0)
    # No time at all is one wave.
    plan = MCTS(wave_size=3, max_seconds=1e-9).plan(model, model.state(0), rng=0)
    assert plan.visits.sum() == 3
    assert MCTS(max_seconds=1.0)._capacity(3) == 10_000


@pytest.mark.parametrize("name", PLANNERS)
def test_every_planner_ends_when_its_time_is_up(models, name):
    # A world without an end, and nothing but the clock to stop at.
    planner = load_planner(name)(max_seconds=1e-9)
    if isinstance(planner, Shooting):
        model = models.Integrator()
        start = model.state(0.5)
    else:
        model = models.TableModel((np.arange(9000)[:, None] + [1, 2]) % 9000, np.ones((9000, 2)))
        start = model.state(0)
    plan = planner.plan(model, start, rng=0, obs=np.zeros(1, np.float32))
    # One wave was run all the same.
    assert plan.budget.model_steps == model.model_steps >= 1
    assert plan.budget.seconds > 0
    assert model.action_space.contains(plan.action)


def test_known_endings_do_not_make_a_search_endless(models):
    model = models.bandit([1.0, 2.0])
    plan = MCTS(max_model_steps=30, rollout_depth=0).plan(model, model.state(0), rng=0)
    assert plan.budget.model_steps == 2
    assert plan.visits.sum() == 30


def test_the_tree_comes_with_the_plan_on_request(models):
    model = models.random_mdp(2)
    planner = MCTS(20, return_tree=True)
    plan = planner.plan(model, model.state(0), rng=0)
    tree = plan.tree
    assert len({len(field) for field in tree}) == 1
    assert list(tree.parent[:1]) == list(tree.action[:1]) == [-1]
    assert (tree.parent[1:] < np.arange(1, len(tree.parent))).all()
    assert tree.visits[0] == 20
    for a in range(3):
        child = np.flatnonzero((tree.parent == 0) & (tree.action == a))
        assert tree.visits[child].sum() == plan.visits[a]
    assert MCTS(20).plan(model, model.state(0), rng=0).tree is None
    np.testing.assert_allclose(plan.weights, plan.visits / 20)


def test_an_option_that_is_assigned_counts_from_the_next_plan_on(models):
    model = models.random_mdp(1, states=400)
    planner = MCTS(8, keep_tree=True)
    for count, constant in ((8, 2.5), (50, 2.5), (50, 0.1), (8, 2.5)):
        planner.num_simulations, planner.c_puct = count, constant
        plan = planner.plan(model, model.state(0), rng=0)
        wanted = MCTS(count, c_puct=constant, keep_tree=True).plan(model, model.state(0), rng=0)
        np.testing.assert_array_equal(plan.visits, wanted.visits)
    planner.num_simulations = 0
    with pytest.raises(InvalidOption, match="num_simulations must be an integer >= 1; got 0"):
        planner.plan(model, model.state(0), rng=0)


@pytest.mark.parametrize("name", PLANNERS)
def test_planners_can_be_pickled(name):
    planner = load_planner(name)(16)
    again = pickle.loads(pickle.dumps(planner))
    options = [option.name for option in options_of(type(planner))]
    assert [getattr(again, n) for n in options] == [getattr(planner, n) for n in options]


def test_what_was_kept_is_not_pickled(models):
    model = models.random_mdp(1, states=400)
    planner = MCTS(16, keep_tree=True)
    first = planner.plan(model, model.state(0), rng=0)
    again = pickle.loads(pickle.dumps(planner)).plan(model, model.state(0), rng=0)
    np.testing.assert_array_equal(again.visits, first.visits)


def test_more_simulations_than_time_allows_take_no_memory_for_them(models):
    model = models.random_mdp(1, states=400)
    planner = MCTS(10**9, max_seconds=0.02, rollout_depth=0)
    assert planner.plan(model, model.state(0), rng=0).visits.sum() > 0


@pytest.mark.parametrize("name", PLANNERS)
@pytest.mark.parametrize("limit", ["num_simulations", "max_model_steps"])
@pytest.mark.parametrize("given", [10**9 + 1, 2**31 - 1, 10**12])
def test_more_than_a_search_can_count_to_is_refused(name, limit, given):
    planner = load_planner(name)
    message = rf"^{planner.__name__}: {limit} must be at most 1000000000; got {given}\. Leave"
    with pytest.raises(InvalidOption, match=message):
        planner(**{limit: given})


@pytest.mark.parametrize(
    ("kind", "first", "then"),
    [
        (RolloutIW, {}, {"max_model_steps": 7}),
        (RolloutIW, {}, {"num_simulations": 90}),
        (IW, {}, {"count_bonus": 0.1}),
        (GraphSearch, {"discount": 1.0}, {"discount": 0.0}),
        (GraphSearch, {}, {"num_simulations": 200}),
        (STS, {}, {"num_simulations": 90}),
    ],
)
def test_what_was_made_for_other_options_is_not_used(models, kind, first, then):
    model, seen = models.random_mdp(1, states=400), np.zeros(1, np.float32)
    planner = kind(30, **first)
    planner.plan(model, model.state(0), rng=0, obs=seen)
    for name, value in then.items():
        setattr(planner, name, value)
    plan = planner.plan(model, model.state(0), rng=1, obs=seen)
    fresh = kind(**{"num_simulations": 30, **first, **then})
    wanted = fresh.plan(model, model.state(0), rng=1, obs=seen)
    np.testing.assert_array_equal(plan.q, wanted.q)
    assert plan.budget.model_steps == wanted.budget.model_steps


@pytest.mark.parametrize("kind", [CEM, ICEM, MPPI, DIAL, PredictiveSampling])
@pytest.mark.parametrize("then", [{"horizon": 20}, {"horizon": 4}, {"num_knots": 5}])
def test_sequences_of_another_length_begin_anew(models, kind, then):
    model = models.Integrator()
    planner, state = kind(24, horizon=10), model.state(1.0)
    planner.plan(model, state, rng=0)
    for name, value in then.items():
        setattr(planner, name, value)
    plan = planner.plan(model, state, rng=1)
    wanted = kind(24, **{"horizon": 10, **then}).plan(model, state, rng=1)
    np.testing.assert_array_equal(plan.actions, wanted.actions)

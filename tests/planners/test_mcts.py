from __future__ import annotations

import math

import numpy as np
import pytest
from gymnasium.spaces import Text

from plangym_ext.errors import UnknownName
from plangym_ext.planners import MCTS
from plangym_ext.planners.lockstep.node_states import reuse


def same(plan, other):
    np.testing.assert_array_equal(plan.visits, other.visits)
    np.testing.assert_array_equal(plan.q, other.q)
    assert (plan.action, plan.value, plan.full) == (other.action, other.value, other.full)
    for name in ("model_steps", "expansions", "evaluator_rows", "restores"):
        assert getattr(plan.budget, name) == getattr(other.budget, name), name


@pytest.mark.parametrize("seed", range(12))
def test_one_leaf_per_wave_is_textbook_sequential_puct(models, textbook, seed):
    model = models.random_mdp(seed)
    evaluator = models.table_evaluator(seed, 40, 3)
    planner = MCTS(50, wave_size=1, c_puct=1.5, discount=0.75, evaluator=evaluator)
    plan = planner.plan(model, model.state(0), rng=seed, obs=np.zeros(1, np.float32))
    order = np.random.default_rng(seed).permutation(3)
    visits, q = textbook(model, evaluator, 0, order, sims=50, c=1.5, gamma=0.75)
    np.testing.assert_array_equal(plan.visits, visits)
    np.testing.assert_array_equal(plan.q, q)
    assert plan.visits.sum() == 50


def test_one_simulation_rates_one_leaf_one_step_deep(models):
    # V = 10 * depth, r = 1, gamma = 0.5: by hand 1 + 0.5 * 10 = 6. A search that
    # goes on past the leaf before backing up says 4, and pays a second step.
    model = models.chain(5)
    planner = MCTS(1, discount=0.5, evaluator=lambda obs: (None, 10 * obs[:, 0]))
    plan = planner.plan(model, model.state(0), rng=0, obs=np.zeros(1))
    assert plan.value == 6.0
    np.testing.assert_array_equal(plan.q, [6.0])
    assert plan.budget.model_steps == plan.budget.expansions == plan.budget.restores == 1
    assert plan.budget.evaluator_rows == 2  # the root and the leaf
    # r = 1, V = 0: 1.0; counting the reward twice gave 1.5.
    planner = MCTS(1, discount=0.5, rollout_depth=0)
    assert planner.plan(model, model.state(0), rng=0).value == 1.0


def test_termination_hides_the_evaluator_and_truncation_does_not(models):
    evaluator = lambda obs: (None, np.full(len(obs), 8.0))  # noqa: E731
    for options, value in (({"terminated": [1]}, 1.0), ({"truncated": [1]}, 1 + 0.5 * 8)):
        model = models.chain(3, **options)
        planner = MCTS(6, discount=0.5, evaluator=evaluator)
        plan = planner.plan(model, model.state(0), rng=0, obs=np.zeros(1))
        assert plan.value == value
        np.testing.assert_array_equal(plan.visits, [6])
        # Chosen six times, stepped into once.
        assert plan.budget.model_steps == model.step_rows == 1


@pytest.mark.parametrize("first_action", [0, 3, -2])
def test_the_best_arm_is_played_whatever_the_first_action_is_called(models, first_action):
    model = models.bandit([0.0, 0.5, 1.0, -1.0], first_action=first_action)
    plan = MCTS(32).plan(model, model.state(0), rng=1)
    assert plan.action == first_action + 2
    np.testing.assert_array_equal(plan.q, [0.0, 0.5, 1.0, -1.0])
    assert plan.visits.argmax() == 2
    assert plan.visits.sum() == 32


def test_a_narrow_path_is_found_step_by_step(models):
    model = models.narrow_path(3)
    planner = MCTS(64)
    index = 0
    while not model.over[index]:
        plan = planner.plan(model, model.state(index), rng=index)
        index, reward = model._advance(index, plan.action)
    assert reward == 1.0


def test_without_any_reward_no_action_is_preferred_for_its_index(models):
    model = models.random_mdp(0, actions=4, ended=2)
    model.reward[:] = 0
    planner = MCTS(10)
    chosen = [planner.plan(model, model.state(0), rng=seed).action for seed in range(40)]
    assert min(np.bincount(chosen, minlength=4)) >= 4


def test_trees_planned_together_equal_trees_planned_alone(models):
    planner = MCTS(24, wave_size=5, num_rollouts=3, rollout_depth=4)
    model = models.random_mdp(3)
    roots = [0, 5, 9, 0]
    states = np.stack([model.state(i) for i in roots])
    together = planner.plan_batch(
        model, states, rngs=[np.random.default_rng(i) for i in range(len(roots))]
    )
    for i, plan in enumerate(together):
        same(plan, planner.plan(model, states[i], rng=i))
    # Same root, other generator: other rollouts.
    assert not np.array_equal(together[0].q, together[3].q)


def test_the_seed_decides(models):
    model = models.random_mdp(4)
    planner = MCTS(24)
    plans = [planner.plan(model, model.state(0), rng=seed) for seed in (7, 7, 8)]
    same(plans[0], plans[1])
    assert not np.array_equal(plans[0].q, plans[2].q)


def test_budget_counts_what_the_model_did(models):
    model = models.random_mdp(5)
    plan = MCTS(40, wave_size=4, num_rollouts=2, rollout_depth=6).plan(model, model.state(0), rng=0)
    assert plan.budget.model_steps == model.model_steps
    assert plan.budget.restores == model.step_rows + model.rollout_rows
    assert plan.budget.expansions == model.step_rows <= 40
    assert plan.budget.evaluator_rows == 0
    assert plan.budget.seconds > 0
    assert max(model.waves) <= 4


@pytest.mark.parametrize("wave_size", [1, 3, 64])
def test_every_wave_size_runs_all_simulations(models, wave_size):
    model = models.random_mdp(6, states=400)
    plan = MCTS(50, wave_size=wave_size).plan(model, model.state(0), rng=0)
    assert plan.visits.sum() == 50
    assert not plan.full
    assert max(model.waves) <= wave_size


def test_a_full_tree_ends_the_search_and_says_so(models):
    model = models.random_mdp(7, states=400)
    plan = MCTS(50, capacity=11).plan(model, model.state(0), rng=0)
    assert plan.full
    assert plan.budget.expansions == 10
    assert 10 <= plan.visits.sum() < 50


def test_a_kept_tree_goes_on_from_the_state_that_came_about(models):
    model = models.chain(40)
    evaluator = lambda obs: (None, obs[:, 0] / 8)  # noqa: E731
    planner = MCTS(8, discount=0.5, evaluator=evaluator, keep_tree=True)
    first = planner.plan(model, model.state(0), rng=0, obs=np.zeros(1))
    second = planner.plan(model, model.state(1), rng=1, obs=np.ones(1))
    # One action: of the 8 visits of the only child, 7 went on from there, and
    # a chain grown in two goes is the chain grown in one.
    np.testing.assert_array_equal(second.visits, [7 + 8])
    assert second.budget.evaluator_rows == 8
    fresh = MCTS(15, discount=0.5, evaluator=evaluator)
    alone = fresh.plan(model, model.state(1), rng=1, obs=np.ones(1))
    np.testing.assert_allclose(second.q, alone.q, rtol=1e-6)
    assert first.visits.sum() == 8


def test_kept_statistics_are_those_of_the_subtree(models):
    model = models.random_mdp(8)
    planner = MCTS(60, keep_tree=True)
    plan = planner.plan(model, model.state(0), rng=0)
    search = planner._kept.search
    child = search.tree.children[0, 0, plan.action]
    grand = search.tree.children[0, child]
    visits = np.where(grand >= 0, search.tree.visits[0, grand], 0)
    state = search.states.rows[0, child].copy()
    # A second row's tree, and other bytes, take no part in it.
    assert not len(reuse(search.tree, search.states, 0, np.zeros_like(state) + 255))
    assert len(reuse(search.tree, search.states, 0, state))
    tree = search.tree
    np.testing.assert_array_equal(
        np.where(tree.children[0, 0] >= 0, tree.visits[0, tree.children[0, 0]], 0), visits
    )
    # Every kept node still has the state its parent's action leads to.
    for n in range(1, tree.size[0]):
        parent, here = model.index(search.states.rows[0, [tree.parent[0, n], n]])
        assert model.successor[parent, tree.action[0, n]] == here
        assert tree.children[0, tree.parent[0, n], tree.action[0, n]] == n


@pytest.mark.parametrize("forget", ["reset", "other state", "other env"])
def test_a_tree_is_not_kept_where_it_does_not_belong(models, forget):
    model, other = models.chain(40), models.chain(40)
    planner = MCTS(8, keep_tree=True)
    planner.plan(model, model.state(0), rng=0)
    start = 7 if forget == "other state" else 1
    if forget == "reset":
        planner.reset()
    plan = planner.plan(other if forget == "other env" else model, model.state(start), rng=1)
    same(plan, MCTS(8).plan(model, model.state(start), rng=1))


def test_a_failed_search_is_not_kept(models):
    model = models.chain(40)
    planner = MCTS(8, keep_tree=True)
    planner.plan(model, model.state(0), rng=0)
    model.reward[:] = np.nan
    with pytest.raises(ValueError, match=r"rewards must be finite, .* got \[nan"):
        planner.plan(model, model.state(1), rng=0)
    model.reward[:2] = 1.0
    with pytest.raises(ValueError, match=r"leaf values of Rollouts must be finite, .* got \[nan\]"):
        planner.plan(model, model.state(1), rng=0)
    model.reward[:] = 1.0
    same(planner.plan(model, model.state(1), rng=1), MCTS(8).plan(model, model.state(1), rng=1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_simulations": 0}, r"num_simulations must be an integer >= 1; got 0"),
        ({"num_simulations": 2.5}, r"num_simulations must be an integer >= 1; got 2.5"),
        ({"wave_size": 0}, r"wave_size must be an integer >= 1; got 0"),
        ({"num_rollouts": 0}, r"num_rollouts must be an integer >= 1; got 0"),
        ({"rollout_depth": -1}, r"rollout_depth must be an integer >= 0; got -1"),
        ({"capacity": 1}, r"capacity must be an integer >= 2; got 1"),
        ({"discount": math.nan}, r"discount must be a finite number in \[0.0, 1.0\]; got nan"),
        ({"discount": 1.5}, r"discount must be a finite number in \[0.0, 1.0\]; got 1.5"),
        ({"c_puct": -1}, r"c_puct must be a finite number in \[0.0, inf\]; got -1"),
        ({"fpu_reduction": math.inf}, r"fpu_reduction must be a finite number; got inf"),
        ({"evaluator": 3}, r"evaluator must be a function .* got 3"),
    ],
)
def test_bad_options_are_named_with_their_value(options, message):
    with pytest.raises(ValueError, match=message):
        MCTS(**options)


def test_an_unknown_scale_comes_with_a_close_match():
    with pytest.raises(UnknownName, match=r"none, siblings, tree; got 'sibling'.* 'siblings'"):
        MCTS(value_scale="sibling")


def test_bad_calls_are_named_with_their_value(models):
    model, planner = models.chain(3), MCTS(2)
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"uint8.* got shape \(1, 2\) float64"):
        planner.plan(model, np.zeros(2), rng=0)
    with pytest.raises(ValueError, match=r"one row \[S\]; got shape \(1, 8\)"):
        planner.plan(model, model.state(0)[None], rng=0)
    with pytest.raises(ValueError, match=r"one generator per state, 2; got 1"):
        planner.plan_batch(model, np.stack([model.state(0)] * 2), rngs=[rng])
    with pytest.raises(ValueError, match=r"an evaluator needs obs, one per state, 1; got none"):
        MCTS(2, evaluator=lambda obs: (None, obs[:, 0])).plan(model, model.state(0), rng=0)
    model.action_space = Text(3)
    with pytest.raises(ValueError, match=r"plans over actions of .* got the action space Text"):
        planner.plan(model, model.state(0), rng=0)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda n: (None, np.zeros(n + 1)), r"value must be \(1,\) .* got shape \(2,\)"),
        (lambda n: (None, np.full(n, np.nan)), r"got shape \(1,\), 1 not finite"),
        (lambda n: (np.ones((n, 3)) / 3, np.zeros(n)), r"prior must be \(1, 2\).* got \(1, 3\)"),
        (lambda n: (np.full((n, 2), np.nan), np.zeros(n)), r"probabilities.* got \[nan nan\]"),
        (lambda n: (np.array([[1.5, -0.5]] * n), np.zeros(n)), r"got \[ 1.5 -0.5\].*softmax"),
    ],
)
def test_a_broken_evaluator_is_refused(models, answer, message):
    model = models.bandit([0, 1])
    planner = MCTS(2, evaluator=lambda obs: answer(len(obs)))
    with pytest.raises(ValueError, match=message):
        planner.plan(model, model.state(0), rng=0, obs=np.zeros(1))


def test_states_of_another_width_are_refused(models):
    model = models.chain(3)
    model.index = lambda states: np.zeros(len(states), int)
    with pytest.raises(ValueError, match=r"as wide as the root's, 9 bytes; got 8"):
        MCTS(2).plan(model, np.zeros(9, np.uint8), rng=0)

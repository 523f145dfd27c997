"""Shoot Tree Search, with the numbers of the originals worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from plangym_ext.errors import InvalidOption
from plangym_ext.planners import STS
from plangym_ext.planners.trees.sts_kernels import choose_child
from plangym_ext.planners.trees.tree import UNVISITED


def depth_value(obs):
    return None, 10.0 * obs[:, 0]


def same_value(obs):
    return None, np.full(len(obs), 8.0)


def prior_of(obs):
    return np.tile([0.0, 0.25, 0.75], (len(obs), 1)), np.zeros(len(obs))


def search(model, sims, expansions, evaluator=None, **options):
    planner = STS(
        sims,
        num_expansions=expansions,
        discount=0.5,
        evaluator=evaluator,
        rollout_depth=0,
        keep_tree=True,
        **options,
    )
    plan = planner.plan(model, model.state(0), rng=0, obs=np.zeros(1))
    return plan, planner._kept.search.tree


def test_the_root_receives_reward_plus_discounted_value(models):
    # V = 10 * depth, r = 1, gamma = 0.5: 1 + 0.5 * 10 = 6. Alpacka's deterministic agent
    # took one step more and gave the root 4 (and that leaf 6 instead of 11).
    model = models.chain(6)
    plan, tree = search(model, 1, 1, depth_value)
    assert plan.value == 6.0
    assert plan.budget.model_steps == 1
    # The next simulation rates depth 2 at 1 + 0.5 * 20 = 11: depth 1 sees 6, then
    # 1 + 0.5 * 11 = 6.5.
    plan, tree = search(model, 2, 1, depth_value)
    np.testing.assert_array_equal(tree.q[0, :3], [6.25, 6.25, 11])
    np.testing.assert_array_equal(tree.visits[0, :3], [2, 2, 1])


def test_a_reward_is_counted_once(models):
    # r = 1, V = 0: the child is worth 1.0; Alpacka's stochastic agent said 1.5.
    plan, tree = search(models.chain(6), 1, 1)
    assert plan.value == 1.0
    assert tree.q[0, 1] == 1.0
    np.testing.assert_array_equal(plan.q, [1.0])


def test_two_expansions_hand_up_the_last_value(models):
    # Depth 2 is worth 1; depth 1 was rated 1 and then sees 1 + 0.5 * 1 = 1.5.
    plan, tree = search(models.chain(6), 1, 2)
    np.testing.assert_array_equal(tree.q[0, :3], [1.5, 1.25, 1])
    np.testing.assert_array_equal(tree.visits[0, :3], [1, 2, 1])
    assert plan.budget.model_steps == plan.budget.expansions == 2
    # With the first one's value as well the root sees 1 and 1.5.
    plan, tree = search(models.chain(6), 1, 2, intermediate_backups=True)
    np.testing.assert_array_equal(tree.q[0, :3], [1.25, 1.25, 1])
    np.testing.assert_array_equal(tree.visits[0, :3], [2, 2, 1])
    assert plan.budget.model_steps == 2


@pytest.mark.parametrize("intermediate", [False, True])
def test_an_ending_within_the_expansions_ends_the_simulation(models, intermediate):
    # V = 8: depth 1 is rated 1 + 4 = 5. Depth 2 terminates and is worth 1, not 1 + 4;
    # nothing is stepped after it.
    model = models.chain(6, terminated=[2])
    plan, tree = search(model, 1, 3, same_value, intermediate_backups=intermediate)
    assert plan.budget.model_steps == 2
    # Depth 1 sees 5 and 1 + 0.5 * 1; the root that, and 5 if it is told on the way.
    np.testing.assert_array_equal(tree.q[0, 1:3], [3.25, 1])
    assert plan.value == (3.25 if intermediate else 1.5)
    # Chosen again, the ending is worth what it was.
    plan, tree = search(model, 3, 3, same_value, intermediate_backups=intermediate)
    np.testing.assert_array_equal(tree.q[0, 2], 1)
    assert plan.budget.model_steps == 2
    # Truncated, it is bootstrapped: 1 + 0.5 * 8 = 5, and above 1 + 0.5 * 5 = 3.5.
    model = models.chain(6, truncated=[2])
    _, tree = search(model, 1, 3, same_value)
    np.testing.assert_array_equal(tree.q[0, 0:3], [3.5, 4.25, 5])


@pytest.mark.parametrize("expansions", [1, 2, 5])
@pytest.mark.parametrize("wave_size", [1, 4])
def test_equal_products_cost_equal_steps(models, expansions, wave_size):
    model = models.random_mdp(4, states=400)
    planner = STS(20 // expansions, num_expansions=expansions, rollout_depth=0, wave_size=wave_size)
    plan = planner.plan(model, model.state(0), rng=0)
    # 20 expansions of 3 actions, fewer only where episodes end.
    assert plan.budget.model_steps == model.model_steps
    assert 50 <= model.model_steps <= 60
    assert not plan.full


@pytest.mark.parametrize(
    "options", [{"intermediate_backups": True}, {"num_children": 2, "rollout_depth": 2}]
)
def test_trees_planned_together_equal_trees_planned_alone(models, options):
    model = models.random_mdp(3)
    planner = STS(8, num_expansions=3, wave_size=3, **options)
    states = np.stack([model.state(i) for i in (0, 5, 9)])
    together = planner.plan_batch(model, states, rngs=[np.random.default_rng(i) for i in range(3)])
    for i, plan in enumerate(together):
        alone = planner.plan(model, states[i], rng=i)
        np.testing.assert_array_equal(plan.visits, alone.visits)
        np.testing.assert_array_equal(plan.q, alone.q)
        assert plan.budget.model_steps == alone.budget.model_steps


def test_a_tree_without_room_for_the_children_says_so(models):
    model = models.random_mdp(4, states=400)
    planner = STS(50, num_expansions=2, rollout_depth=0, capacity=12)
    plan = planner.plan(model, model.state(0), rng=0)
    assert plan.full
    # Three expansions of three children and the root: a fourth does not fit.
    assert plan.budget.expansions == 9


def test_steps_are_never_exceeded(models):
    model = models.random_mdp(4, states=400)
    planner = STS(max_model_steps=100, num_expansions=4, rollout_depth=2)
    plan = planner.plan(model, model.state(0), rng=0)
    # A simulation may take 4 * 3 * (1 + 2) steps.
    assert 100 - 36 < plan.budget.model_steps <= 100


def test_a_deep_reward_is_found_by_deep_simulations(models):
    model = models.narrow_path(3)
    plan = STS(80, num_expansions=3, rollout_depth=0).plan(model, model.state(0), rng=0)
    assert plan.action == 1
    assert plan.q[1] > 0


# Children that are drawn --------------------------------------------------------


def test_a_drawn_expansion_steps_so_many_and_the_root_all(models):
    model = models.random_mdp(4, states=400)
    planner = STS(1, num_expansions=4, num_children=2, rollout_depth=0, return_tree=True)
    plan = planner.plan(model, model.state(0), rng=0)
    assert plan.budget.model_steps == model.model_steps == 3 + 3 * 2
    tree = planner._kept.search.tree
    sizes = (tree.children[0] != UNVISITED).sum(axis=1)
    np.testing.assert_array_equal(np.sort(sizes[sizes > 0]), [2, 2, 2, 3])
    # Only hidden from the rule: what is legal is not forgotten.
    assert tree.legal[0, :10].all()


def test_to_draw_all_children_is_to_draw_none(models):
    model = models.random_mdp(4, states=400)
    every, drawn = (
        STS(12, num_expansions=3, num_children=most, rollout_depth=0, wave_size=2, compiled=False)
        for most in (None, 3)
    )
    plans = [planner.plan(model, model.state(0), rng=0) for planner in (every, drawn)]
    np.testing.assert_array_equal(plans[0].visits, plans[1].visits)
    np.testing.assert_array_equal(plans[0].q, plans[1].q)
    assert plans[0].budget.model_steps == plans[1].budget.model_steps


def test_children_are_drawn_by_the_prior(models):
    model = models.random_mdp(4, states=400)
    planner = STS(300, num_expansions=1, num_children=1, evaluator=prior_of, rollout_depth=0)
    planner.plan(model, model.state(0), rng=0, obs=np.zeros(1))
    tree = planner._kept.search.tree
    given = tree.children[0, 1 : tree.size[0]] != UNVISITED
    counts = given[given.any(axis=1)].sum(axis=0)
    # Binomial with n = 298 or so: 0.68 and 0.82 are three standard deviations away.
    assert counts[0] == 0
    assert 0.67 < counts[2] / counts.sum() < 0.83


def test_an_action_without_prior_is_drawn_last_and_still_drawn(models):
    model = models.random_mdp(4, states=400)
    planner = STS(1, num_expansions=3, num_children=3, evaluator=prior_of, rollout_depth=0)
    plan = planner.plan(model, model.state(0), rng=0, obs=np.zeros(1))
    assert plan.budget.model_steps == 9


def test_what_was_not_drawn_is_hidden_from_the_rule(models):
    model = models.random_mdp(4, states=400)
    planner = STS(1, num_expansions=2, num_children=2, rollout_depth=0)
    planner.plan(model, model.state(0), rng=0)
    tree = planner._kept.search.tree
    node = int(np.flatnonzero((tree.children[0, 1:] != UNVISITED).any(axis=1))[0]) + 1
    there = tree.children[0, node] != UNVISITED
    # All of the prior is the missing one's; the others share what they have.
    tree.prior[0, node] = np.where(there, 0.05, 0.9)
    before = tree.legal.copy()
    action = choose_child(tree, 0, node, planner._checked_selection, None, 2)
    assert there[action]
    np.testing.assert_array_equal(tree.legal, before)
    # As if the rule saw two children with half of the prior each.
    tree.prior[0, node] = np.where(there, 0.5, 0.0)
    assert choose_child(tree, 0, node, planner._checked_selection, None, 2) == action


def test_a_node_that_becomes_the_root_is_given_the_rest(models):
    model = models.random_mdp(4, states=400)
    planner = STS(
        6, num_expansions=5, num_children=1, rollout_depth=0, keep_tree=True, capacity=500
    )
    first = planner.plan(model, model.state(0), rng=0)
    out = model.step_batch(np.array([first.action]), states=model.state(0)[None])
    before = model.model_steps
    second = planner.plan(model, out.states[0], rng=1)
    tree = planner._kept.search.tree
    assert (tree.children[0, 0] != UNVISITED).all()
    assert np.isfinite(second.q).all()
    # Two that the root lacked, and five nodes of one child in each of six simulations at most.
    assert second.budget.model_steps == model.model_steps - before <= 2 + 6 * 5


def test_a_root_without_room_for_the_rest_keeps_what_it_has(models):
    model = models.random_mdp(4, states=400)
    planner = STS(
        1, num_expansions=12, num_children=1, rollout_depth=0, keep_tree=True, capacity=15
    )
    first = planner.plan(model, model.state(0), rng=0)
    tree = planner._kept.search.tree
    assert tree.size[0] == 15
    child = tree.children[0, 0]
    on = int(np.flatnonzero((tree.children[0, child] != UNVISITED).any(axis=1))[0])
    out = model.step_batch(np.array([on]), states=model.state(0)[None])
    plan = planner.plan(model, out.states[0], rng=1)
    assert tree.size[0] == 15
    assert np.isfinite(plan.q).sum() >= 1
    assert np.isfinite(first.value)


def test_steps_of_drawn_expansions_are_never_exceeded_and_nearly_used(models):
    model = models.random_mdp(4, states=400)
    planner = STS(max_model_steps=50, num_expansions=6, num_children=1, rollout_depth=0)
    plan = planner.plan(model, model.state(0), rng=0)
    # The first may take 3 + 5, later ones 6.
    assert 50 - 6 < plan.budget.model_steps <= 50


@pytest.mark.parametrize("wrong", [0, 1.5, "all"])
def test_how_many_children_are_drawn_is_checked(wrong):
    with pytest.raises(InvalidOption, match="num_children"):
        STS(num_children=wrong)


def test_nothing_is_drawn_for_a_tree_that_is_full(models):
    # Rows fill up at different times, as episodes end in it; the others' waves go on.
    model = models.random_mdp(3)
    planner = STS(20, num_children=2, capacity=12, rollout_depth=3, num_expansions=3, wave_size=1)
    states = np.stack([model.state(i) for i in np.flatnonzero(~(model.over | model.cut))[:8]])
    rngs = [np.random.default_rng(i) for i in range(8)]
    assert any(plan.full for plan in planner.plan_batch(model, states, rngs=rngs))
    for i, rng in enumerate(rngs):
        alone = np.random.default_rng(i)
        planner.plan(model, states[i], rng=alone)
        assert alone.bit_generator.state == rng.bit_generator.state


def test_the_root_and_its_children_must_fit(models):
    model = models.random_mdp(4)
    with pytest.raises(InvalidOption, match=r"STS: capacity must be at least 4.*got 3"):
        STS(4, capacity=3).plan(model, model.state(0), rng=0)

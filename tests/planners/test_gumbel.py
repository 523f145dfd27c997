from __future__ import annotations

import numpy as np
import pytest

from plangym_ext.errors import InvalidOption
from plangym_ext.planners import MCTS
from plangym_ext.planners.trees.gumbel import (
    halving_schedule,
    improved_action,
    improved_logits,
    no_halving,
    softmax,
)
from plangym_ext.planners.trees.rules import SCALE_NONE
from plangym_ext.planners.trees.tree import OPEN, ROOT, allocate, new_tree


def both(kernel):
    return pytest.mark.parametrize("run", [kernel, kernel.py_func], ids=["jit", "python"])


def known(visits, q, prior):
    tree = new_tree(1, 8, len(visits))
    tree.prior[0, ROOT] = prior
    for a, count in enumerate(visits):
        if count:
            slot = allocate.py_func(tree, 0, ROOT, a)
            tree.kind[0, slot], tree.visits[0, slot], tree.q[0, slot] = OPEN, count, q[a]
    tree.visits[0, ROOT] = sum(visits)
    return tree


def test_simulations_are_halved_by_hand():
    # 16 over 4 actions in 2 phases: 2 each of 4, then 4 each of 2.
    tried, ends = halving_schedule(4, 16)
    assert tried == [0] * 4 + [1] * 4 + [2, 2, 3, 3, 4, 4, 5, 5]
    assert ends == [8] * 8 + [16] * 8
    assert halving_schedule(1, 3) == ([0, 1, 2], [3, 3, 3])
    # Fewer simulations than actions: one each.
    assert halving_schedule(8, 5)[0] == [0] * 5


@both(improved_logits)
def test_missing_values_are_completed_by_the_mix(run):
    tree, out = known([3, 1, 0], [1.0, 0.0, 0.0], [0.5, 0.25, 0.25]), np.empty(3)
    run(tree, 0, ROOT, 0.0, SCALE_NONE, 1.0, 0.1, out)
    # sigma = (1 + 3) * 0.1; v_mix = 0.5 * 1 / 0.75 = 2 / 3 at a root without a rating.
    expected = np.log([0.5, 0.25, 0.25]) + 0.4 * np.array([1, 0, 2 / 3])
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    tree.value[0, ROOT] = -1.0
    # With one of -1: (-1 + 4 * 2 / 3) / (1 + 4) = 1 / 3.
    run(tree, 0, ROOT, 1.0, SCALE_NONE, 1.0, 0.1, out)
    expected = np.log([0.5, 0.25, 0.25]) + 0.4 * np.array([1, 0, 1 / 3])
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    tree.legal[0, ROOT, 1] = False
    run(tree, 0, ROOT, 0.0, SCALE_NONE, 1.0, 0.1, out)
    assert out[1] == -np.inf


@pytest.mark.parametrize("evaluator", [True, False], ids=["rated", "unrated"])
def test_weights_count_what_the_root_was_rated(models, evaluator):
    # Every action ends the episode and pays 1; the root is rated 0, or nothing rates it.
    model, options = models.bandit(np.ones(3)), {"value_scale": "none", "c_scale": 0.02}
    if evaluator:
        options["evaluator"] = lambda obs: (np.full((len(obs), 3), 1 / 3), np.zeros(len(obs)))
    planner = MCTS(1, selection="gumbel", rollout_depth=0, **options)
    plan = planner.plan(model, model.state(0), rng=0, obs=np.zeros(1))
    # (33): (0 + 1 * 1) / (1 + 1) for what was not tried, or the mean 1 alone; (8): 51 * 0.02.
    q = np.where(plan.visits > 0, 1.0, 0.5 if evaluator else 1.0)
    weights = np.exp(51 * 0.02 * q)
    np.testing.assert_allclose(plan.weights, weights / weights.sum(), rtol=1e-6)


@both(improved_action)
def test_below_the_root_visits_approach_the_improved_policy(run):
    # Equal q: the policy is the prior, 0.5 0.25 0.25. Visits 3 and 1 of 4 lack the last:
    # 0.5 - 3/5, 0.25 - 1/5, 0.25 - 0.
    halving = no_halving(1)._replace(logits=np.empty((1, 3)))
    tree = known([3, 1, 0], [0.0, 0.0, 0.0], [0.5, 0.25, 0.25])
    assert run(tree, 0, ROOT, halving, SCALE_NONE, 50.0, 1.0) == 2
    # The first is far better: sigma(1) = 53.
    tree = known([3, 1, 0], [1.0, 0.0, 0.0], [0.5, 0.25, 0.25])
    tree.value[0, ROOT] = 0.0
    assert run(tree, 0, ROOT, halving, SCALE_NONE, 50.0, 1.0) == 0


@both(softmax)
def test_weights_are_shares_and_nothing_is_made_of_nothing(run):
    weights = np.array([1000.0, 1000.0 + np.log(3.0), -np.inf])
    assert run(weights) == 1000.0 + np.log(3.0)
    np.testing.assert_allclose(weights, [0.25, 0.75, 0.0])
    nothing = np.full(2, -np.inf)
    assert run(nothing) == -np.inf
    assert (nothing == -np.inf).all()


@pytest.mark.parametrize("wave_size", [1, 8])
@pytest.mark.parametrize("seed", range(5))
def test_the_best_arm_wins_the_halving(models, seed, wave_size):
    model = models.bandit(np.arange(8) / 8)
    planner = MCTS(24, selection="gumbel", rollout_depth=0, wave_size=wave_size)
    plan = planner.plan(model, model.state(0), rng=seed)
    assert plan.action == 7
    assert plan.visits.sum() == 24
    # 24 over 8 actions in 3 phases: 1 each, then 2 each of 4, then 4 each of 2, of
    # which the last 0 are left: 8 + 8 + 8.
    assert sorted(plan.visits) == [1, 1, 1, 1, 3, 3, 7, 7]
    assert plan.weights.argmax() == 7
    assert plan.weights.sum() == pytest.approx(1)


def test_only_the_actions_considered_are_tried(models):
    model = models.bandit(np.arange(8) / 8)
    planner = MCTS(16, selection="gumbel", rollout_depth=0, num_considered=2)
    chosen = set()
    for seed in range(20):
        plan = planner.plan(model, model.state(0), rng=seed)
        assert (plan.visits > 0).sum() == 2
        assert plan.action == np.flatnonzero(plan.visits).max()
        chosen.add(plan.action)
    assert len(chosen) > 2


def test_without_noise_the_likeliest_actions_are_considered(models):
    prior = np.array([0.02, 0.3, 0.05, 0.25, 0.08, 0.1, 0.1, 0.1])

    def evaluator(obs):
        return np.tile(prior, (len(obs), 1)), np.zeros(len(obs))

    model = models.bandit(np.arange(8) / 8)
    options = {"selection": "gumbel", "num_considered": 2, "evaluator": evaluator}
    tried = {}
    for scale in (0.0, 1.0):
        planner = MCTS(16, gumbel_scale=scale, **options)
        plans = [planner.plan(model, model.state(0), rng=k, obs=np.zeros(1)) for k in range(20)]
        tried[scale] = {(plan.action, *np.flatnonzero(plan.visits)) for plan in plans}
    assert tried[0.0] == {(3, 1, 3)}
    assert len(tried[1.0]) > 2


def test_trees_halved_together_equal_trees_halved_alone(models):
    model, planner = models.random_mdp(3), MCTS(24, selection="gumbel")
    states = np.stack([model.state(i) for i in (0, 5, 9)])
    together = planner.plan_batch(model, states, rngs=[np.random.default_rng(i) for i in range(3)])
    for i, plan in enumerate(together):
        alone = planner.plan(model, states[i], rng=i)
        np.testing.assert_array_equal(plan.visits, alone.visits)
        np.testing.assert_array_equal(plan.weights, alone.weights)


def test_gumbel_needs_a_number_and_a_fresh_tree():
    for options in ({"max_model_steps": 100}, {"num_simulations": 9, "keep_tree": True}):
        with pytest.raises(InvalidOption, match="selection 'gumbel' divides a known number"):
            MCTS(selection="gumbel", **options)


def test_a_temperature_is_refused_rather_than_ignored():
    with pytest.raises(InvalidOption, match=r"temperature must be 0 with selection 'gumbel'.*1\.0"):
        MCTS(8, selection="gumbel", temperature=1.0)

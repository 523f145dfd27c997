"""Shooting and bandit shooting over discrete actions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from plangym_ext.errors import InvalidOption
from plangym_ext.planners import BanditShooting, DiscreteShooting


@pytest.mark.parametrize("cls", [DiscreteShooting, BanditShooting])
def test_rows_planned_together_equal_rows_planned_alone(models, cls):
    model, planner = models.random_mdp(3), cls(30, rollout_depth=5)
    states = np.stack([model.state(i) for i in (0, 5, 9)])
    together = planner.plan_batch(model, states, rngs=[np.random.default_rng(i) for i in range(3)])
    for i, plan in enumerate(together):
        alone = planner.plan(model, states[i], rng=i)
        np.testing.assert_array_equal(plan.visits, alone.visits)
        np.testing.assert_array_equal(plan.q, alone.q)
        assert (plan.action, plan.value) == (alone.action, alone.value)
        assert plan.budget.model_steps == alone.budget.model_steps
        assert plan.visits.sum() == 30


def gamble(models):
    """Action 0 pays 0.6; action 1 leads to 1 or 0, by the action after it."""
    return models.TableModel(
        [[2, 1], [2, 2], [2, 2]], [[0.6, 0.0], [1.0, 0.0], [0, 0]], terminated=[2]
    )


def test_an_action_is_as_good_as_the_mean_or_the_best_of_its_rollouts(models):
    model = gamble(models)
    for score, action, q in (("mean", 0, 0.5), ("max", 1, 1.0)):
        planner = DiscreteShooting(400, score=score, discount=1.0)
        plan = planner.plan(model, model.state(0), rng=0)
        assert plan.action == action
        assert plan.q[0] == pytest.approx(0.6)
        # A fair coin 200 times or so: within four standard deviations.
        assert plan.q[1] == pytest.approx(q, abs=0.0 if score == "max" else 0.15)


def test_an_action_that_began_nothing_has_no_score(models):
    model = models.bandit([-1.0] * 6)
    plan = DiscreteShooting(2).plan(model, model.state(0), rng=0)
    assert np.isnan(plan.q).sum() >= 4
    assert plan.visits[plan.action] > 0


@pytest.mark.parametrize("cls", [DiscreteShooting, BanditShooting])
def test_values_follow_rollouts_that_were_cut_but_not_those_that_ended(models, cls):
    # Two steps in all, r = 1, gamma = 0.5, V = 8: 1 + 0.5 + 0.25 * 8 = 3.5.
    evaluator = lambda obs: (None, np.full(len(obs), 8.0))  # noqa: E731
    depth = 2 if cls is DiscreteShooting else 1
    planner = cls(3, rollout_depth=depth, discount=0.5, evaluator=evaluator)
    assert planner.plan(models.chain(9), models.chain(9).state(0), rng=0).value == 3.5
    ended = models.chain(9, terminated=[2])
    assert planner.plan(ended, ended.state(0), rng=0).value == 1.5
    first = models.chain(9, terminated=[1])
    assert planner.plan(first, first.state(0), rng=0).value == 1.0


@pytest.mark.parametrize("c", [0.5, 2.5])
@pytest.mark.parametrize("seed", range(3))
def test_one_arm_at_a_time_is_the_textbook_bandit(models, c, seed):
    rewards = [0.25, 0.5, 1.0, 0.75]
    model = models.bandit(rewards)
    planner = BanditShooting(25, wave_size=1, c_puct=c)
    plan = planner.plan(model, model.state(0), rng=seed)
    order = np.random.default_rng(seed).permutation(4)
    visits, q = np.zeros(4, int), np.zeros(4)
    for n in range(25):
        score = [q[a] + c * 0.25 * math.sqrt(n) / (1 + visits[a]) for a in range(4)]
        arm = max(order, key=score.__getitem__)
        visits[arm] += 1
        q[arm] = rewards[arm]
    np.testing.assert_array_equal(plan.visits, visits)
    assert plan.action == max(order, key=lambda a: (visits[a], q[a]))
    assert plan.value == pytest.approx((visits * q).sum() / 25)
    # Every arm ends the episode: one step each, nothing from the ending.
    assert plan.budget.model_steps == 25


def test_a_policy_is_the_prior_and_the_rollouts(models):
    model = models.narrow_path(3)
    right = lambda obs: np.tile([0.05, 0.9, 0.05], (len(obs), 1))  # noqa: E731
    planner = BanditShooting(20, rollout_policy=right, num_rollouts=2)
    plan = planner.plan(model, model.state(0), rng=0, obs=np.zeros(1))
    assert plan.action == 1
    assert plan.visits[1] > 15
    assert plan.budget.evaluator_rows > 20
    with pytest.raises(ValueError, match="needs obs"):
        planner.plan(model, model.state(0), rng=0)


@pytest.mark.parametrize("cls", [DiscreteShooting, BanditShooting])
def test_steps_are_counted_and_never_exceeded(models, cls):
    model = models.random_mdp(1, states=400)
    plan = cls(max_model_steps=90, rollout_depth=7).plan(model, model.state(0), rng=0)
    assert plan.budget.model_steps == model.model_steps
    assert 80 <= model.model_steps <= 90
    with pytest.raises(InvalidOption, match="must pay for one"):
        cls(max_model_steps=6, rollout_depth=7)


@pytest.mark.parametrize("cls", [DiscreteShooting, BanditShooting])
def test_illegal_actions_are_not_begun_with(models, cls):
    model = models.bandit([1.0, 2.0, 3.0])
    mask = np.array([True, True, False])
    plan = cls(30).plan(model, model.state(0), rng=0, legal=mask)
    assert plan.action == 1
    assert plan.visits[2] == 0

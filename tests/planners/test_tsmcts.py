"""Sequential halving over groups of particles: rounds, values, what is dropped, what it costs."""

from __future__ import annotations

import numpy as np
import pytest

from plangym_ext.errors import InvalidOption
from plangym_ext.planners import TSMCTS
from plangym_ext.planners.rollouts.particle_search import tilted
from plangym_ext.planners.rollouts.tsmcts import schedule


def planned(planner, model, rng=0):
    return planner.plan(model, model.state(0), rng=rng, obs=np.zeros(1, np.float32))


@pytest.mark.parametrize(
    ("considered", "particles", "rounds"),
    [
        # Two rounds of 16 each: 4 for each of 4, then 8 for each of 2.
        (4, 32, [(4, 4), (2, 8)]),
        # Three of 21: 2 for each of 8, 5 for each of 4; the last two share the 28 left.
        (8, 64, [(8, 2), (4, 5), (2, 14)]),
        (1, 7, [(1, 7)]),
        (3, 8, [(3, 1), (2, 2)]),
        # No more than one each: what is left over does not pay for two.
        (4, 5, [(4, 1)]),
    ],
)
def test_rounds_share_the_particles(considered, particles, rounds):
    assert schedule(considered, particles) == rounds


def test_values_of_a_bandit_and_what_is_dropped(models):
    rewards = np.array([0.0, 1.0, 0.5, 0.75])
    plan = planned(TSMCTS(32, depth=1, divergence=0.3), models.bandit(rewards))
    # 4 for each; then 8 for each of the two best.
    assert plan.visits.tolist() == [4, 12, 4, 12]
    np.testing.assert_array_equal(plan.q, rewards)
    np.testing.assert_allclose(plan.weights, tilted(rewards, 0.3))
    assert (plan.action, plan.value, plan.budget.model_steps) == (1, 1.0, 32)


def test_values_are_means_over_all_rounds(models):
    # Rewards of random walks differ: what the last two are worth is known from both rounds.
    model = models.random_mdp(3)
    plan = planned(TSMCTS(12, depth=1, discount=0.5), model)
    np.testing.assert_allclose(plan.q, model.reward[0])
    assert plan.visits.sum() == 12


def test_the_policy_says_which_actions_are_considered(models):
    def only_two(obs):
        return np.tile([0.0, 0.5, 0.5], (len(obs), 1)), np.zeros(len(obs))

    plan = planned(TSMCTS(20, depth=2, evaluator=only_two), models.random_mdp(1))
    assert plan.visits.tolist() == [0, 10, 10]
    assert np.isnan(plan.q[0])
    assert plan.weights[0] == 0
    # Of ten actions, the two that the policy likes best by far are nearly always drawn.
    liked = np.full(10, 1e-9)
    liked[[3, 7]] = 0.5
    planner = TSMCTS(
        8, depth=1, num_considered=2, evaluator=lambda obs: (liked[None], np.zeros(len(obs)))
    )
    plan = planned(planner, models.bandit(np.arange(10.0)))
    assert plan.action == 7
    assert plan.visits.tolist() == [0, 0, 0, 4, 0, 0, 0, 4, 0, 0]


def test_particles_find_a_path_that_chance_hardly_does(models):
    model = models.narrow_path(6)
    options = {"depth": 6, "resample_every": 1, "divergence": 2.0, "discount": 1.0}
    plan = planned(TSMCTS(192, evaluator=models.path_progress(6), **options), model)
    assert plan.action == 1
    assert plan.value == pytest.approx(1.0)
    # Off the path it ends at once, and pays nothing.
    assert plan.q[[0, 2]].tolist() == [0.0, 0.0]


def test_an_ending_is_worth_its_reward_and_a_limit_what_follows(models):
    options = {"depth": 3, "discount": 0.5, "evaluator": models.worth(8.0)}
    ended = planned(TSMCTS(4, **options), models.chain(6, terminated=[2]))
    assert ended.value == 1 + 0.5
    cut = planned(TSMCTS(4, **options), models.chain(6, truncated=[2]))
    assert cut.value == 1 + 0.5 + 0.25 * 8
    assert (ended.budget.model_steps, ended.budget.evaluator_rows) == (8, 1 + 4)


def test_rows_of_a_batch_are_those_alone(models):
    model = models.random_mdp(2)
    states = np.stack([model.state(i) for i in (0, 3, 5)])
    legal = np.array([[True, True, True], [True, False, True], [True, False, False]])
    planner = TSMCTS(16, depth=8, resample_every=2)
    rngs = [np.random.default_rng(i) for i in range(3)]
    batch = planner.plan_batch(model, states, rngs=rngs, legal=legal)
    for i, plan in enumerate(batch):
        alone = planner.plan(model, states[i], rng=i, legal=legal[i])
        np.testing.assert_array_equal(alone.q, plan.q)
        np.testing.assert_array_equal(alone.weights, plan.weights)
        assert alone.budget.model_steps == plan.budget.model_steps
        assert not plan.visits[~legal[i]].any()


def test_steps_are_paid_for(models):
    plan = planned(TSMCTS(max_model_steps=50, depth=8), models.chain(40))
    assert plan.budget.model_steps == 48
    with pytest.raises(InvalidOption, match="must pay for one particle of 8 steps"):
        TSMCTS(max_model_steps=7, depth=8)

"""Particles of a policy: weights, drawings, what ends, what it costs."""

from __future__ import annotations

import numpy as np
import pytest

from plangym_ext.errors import InvalidOption
from plangym_ext.planners import SPO
from plangym_ext.planners.rollouts.particle_search import tilted


def planned(planner, model, rng=0):
    return planner.plan(model, model.state(0), rng=rng, obs=np.zeros(1, np.float32))


@pytest.mark.parametrize("divergence", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_weights_are_exponential_and_as_far_from_equal_as_asked(divergence, scale):
    advantages = scale * np.random.default_rng(0).normal(size=50)
    weights = tilted(advantages, divergence)
    assert weights.sum() == pytest.approx(1)
    assert (weights * np.log(50 * weights)).sum() == pytest.approx(divergence, rel=1e-6)
    # The logarithm is linear in the advantage.
    slope = np.polyfit(advantages, np.log(weights), 1)
    np.testing.assert_allclose(np.polyval(slope, advantages), np.log(weights), atol=1e-6)


def test_weights_without_a_difference_or_a_temperature_that_is_far_enough():
    np.testing.assert_array_equal(tilted(np.full(4, 3.0), 0.5), [0.25] * 4)
    # Two of four share all: log 2 is as far as it goes.
    np.testing.assert_allclose(tilted(np.array([1.0, 1.0, 0.0, -1.0]), 5.0), [0.5, 0.5, 0, 0])


def test_shares_of_a_bandit_are_its_weights(models):
    rewards = np.array([0.0, 1.0, 0.5])
    plan = planned(SPO(300, depth=1, divergence=0.3), models.bandit(rewards))
    drawn = np.repeat(rewards, plan.visits)
    by_particle = tilted(drawn, 0.3)
    edges = np.cumsum(plan.visits)[:-1]
    want = [part.sum() for part in np.split(by_particle, edges)]
    np.testing.assert_allclose(plan.weights, want)
    np.testing.assert_allclose(plan.q, rewards)
    assert plan.action == 1
    assert plan.budget.model_steps == 300


def test_particles_find_a_path_that_chance_hardly_does(models):
    # At random one in 3**6 comes to the end; of 128 particles almost none.
    model = models.narrow_path(6)
    options = {"depth": 6, "resample_every": 1, "divergence": 2.0, "discount": 1.0}
    told = planned(SPO(128, evaluator=models.path_progress(6), **options), model)
    assert told.action == 1
    assert told.weights[1] > 0.9
    assert told.value == pytest.approx(1.0)


def test_an_ending_is_worth_its_reward_and_a_limit_what_follows(models):
    options = {"depth": 3, "discount": 0.5, "evaluator": models.worth(8.0)}
    ended = planned(SPO(4, **options), models.chain(6, terminated=[2]))
    assert ended.value == 1 + 0.5
    cut = planned(SPO(4, **options), models.chain(6, truncated=[2]))
    assert cut.value == 1 + 0.5 + 0.25 * 8
    whole = planned(SPO(4, **options), models.chain(6))
    assert whole.value == 1 + 0.5 + 0.25 + 0.125 * 8
    assert (ended.budget.model_steps, whole.budget.model_steps) == (8, 12)
    # The state itself is rated; what has ended is not.
    assert (ended.budget.evaluator_rows, whole.budget.evaluator_rows) == (1 + 4, 1 + 12)


def test_the_policy_draws_the_actions(models):
    def only_two(obs):
        return np.tile([0.0, 0.0, 1.0], (len(obs), 1)), np.zeros(len(obs))

    plan = planned(SPO(20, depth=2, evaluator=only_two), models.random_mdp(1))
    assert plan.visits.tolist() == [0, 0, 20]
    assert plan.action == 2


def test_rows_of_a_batch_are_those_alone(models):
    model = models.random_mdp(2)
    states = np.stack([model.state(i) for i in (0, 3, 5)])
    planner = SPO(16, depth=8, resample_every=2)
    rngs = [np.random.default_rng(i) for i in range(3)]
    batch = planner.plan_batch(model, states, rngs=rngs)
    for i, plan in enumerate(batch):
        alone = planner.plan(model, states[i], rng=i)
        np.testing.assert_array_equal(alone.weights, plan.weights)
        assert alone.budget.model_steps == plan.budget.model_steps


def test_steps_are_paid_for(models):
    plan = planned(SPO(max_model_steps=50, depth=8), models.chain(40))
    assert plan.budget.model_steps == 48
    with pytest.raises(InvalidOption, match="must pay for one particle of 8 steps"):
        SPO(max_model_steps=7, depth=8)

from __future__ import annotations

import numpy as np
import pytest

from plangym_ext.errors import InvalidOption
from plangym_ext.planners import FractalMC
from plangym_ext.planners.rollouts.fractal import _Swarm, relativize


def test_relativize_by_hand():
    # Mean 1, standard deviation 1: z = -1 and 1.
    np.testing.assert_allclose(relativize(np.array([0.0, 2.0])), [np.exp(-1), 1 + np.log(2)])
    assert (relativize(np.full(3, 7.0)) == 1).all()


def test_what_only_rounding_tells_apart_is_equal():
    values = np.array([0.1 + 0.2, 0.3])
    assert values[0] != values[1]
    assert (relativize(values) == 1).all()
    # Small differences of small values are differences.
    assert (relativize(values * [1e-20, 2e-20]) != 1).all()


@pytest.mark.parametrize("depth", [1, 4])
def test_q_is_the_mean_return_of_whole_walks(models, depth):
    # Every step costs 1, whatever is done: not the best return on the way, which is -1.
    model = models.TableModel([[0, 0]], [[-1.0, -1.0]])
    plan = FractalMC(20, depth=depth, discount=1.0).plan(model, model.state(0), rng=0)
    np.testing.assert_array_equal(plan.q[plan.visits > 0], -depth)
    assert plan.value == -depth


@pytest.mark.parametrize("seed", range(3))
def test_the_value_is_the_mean_of_q_over_the_walkers(models, seed):
    model = models.random_mdp(seed)
    plan = FractalMC(30, depth=8).plan(model, model.state(0), rng=seed)
    there = plan.visits > 0
    assert (np.isnan(plan.q) == ~there).all()
    assert plan.value == pytest.approx((plan.visits * plan.q)[there].sum() / 30)


def test_poor_walkers_and_ended_ones_move_to_rich_ones():
    rng = np.random.default_rng(0)
    swarm = _Swarm(np.zeros(4, np.uint8), np.ones(2, bool), 40, rng)
    swarm.first[:] = np.arange(40) % 2
    swarm.returns[:] = np.where(swarm.first == 1, 10.0, 0.0)
    swarm.ended[:4] = True
    swarm.clone(rng, 1.0, 0.0)
    assert not swarm.ended.any()
    # VR is 1 + log(2) = 1.69 against exp(-1) = 0.37: a walker that meets a rich one moves.
    assert (swarm.first == 1).sum() > 24
    assert (swarm.returns == 10.0 * swarm.first).all()


def test_the_best_arm_and_the_path_are_found(models):
    model = models.bandit([0.0, 0.5, 1.0])
    plan = FractalMC(200, depth=3).plan(model, model.state(0), rng=0)
    # All arms end: the walkers stop where they are, and equals go by return.
    assert plan.budget.model_steps == 200
    np.testing.assert_array_equal(plan.q, [0, 0.5, 1])
    model = models.narrow_path(5)
    plan = FractalMC(100, depth=5).plan(model, model.state(0), rng=0)
    assert plan.action == 1
    assert plan.q[1] > 0


def test_a_goal_that_ends_the_episode_is_gone_to(models):
    # A walker at the goal has ended and is moved; the rest earn nothing.
    model = models.TableModel([[0, 1], [0, 2], [2, 2]], [[0, 0], [0, 1.0], [0, 0]], terminated=[2])
    for seed in range(4):
        plan = FractalMC(50, depth=12).plan(model, model.state(0), rng=seed)
        assert plan.action == 1
        np.testing.assert_array_equal(plan.weights, [0, 1])
    # An ending that is worth less than going on is left alone.
    model = models.TableModel([[0, 1], [1, 1]], [[1.0, 5.0], [0, 0]], terminated=[1])
    plan = FractalMC(50, depth=12, discount=1.0).plan(model, model.state(0), rng=0)
    assert plan.action == 0


def test_rows_planned_together_equal_rows_planned_alone(models):
    model, planner = models.random_mdp(3), FractalMC(20, depth=6)
    states = np.stack([model.state(i) for i in (0, 5, 9)])
    together = planner.plan_batch(model, states, rngs=[np.random.default_rng(i) for i in range(3)])
    for i, plan in enumerate(together):
        alone = planner.plan(model, states[i], rng=i)
        np.testing.assert_array_equal(plan.visits, alone.visits)
        np.testing.assert_array_equal(plan.q, alone.q)
        assert plan.budget.model_steps == alone.budget.model_steps


def test_steps_are_never_exceeded(models):
    model = models.random_mdp(3, states=400)
    plan = FractalMC(max_model_steps=100, depth=7).plan(model, model.state(0), rng=0)
    assert 90 <= plan.budget.model_steps == model.model_steps <= 98
    with pytest.raises(InvalidOption, match="pay for one walker of 7 steps; got 6"):
        FractalMC(max_model_steps=6, depth=7)


@pytest.mark.parametrize("weight", [0.0, 0.2, 1.0])
def test_exponents_say_how_likely_poor_walkers_move(weight):
    rng = np.random.default_rng(0)
    swarm = _Swarm(np.zeros(4, np.uint8), np.ones(2, bool), 8000, rng)
    labels = np.arange(8000)
    swarm.first[:] = labels
    # Half of the walkers meet a rich one: VR is 1 + log(2) against exp(-1).
    swarm.returns[:] = labels % 2
    swarm.clone(rng, weight, 0.0)
    chance = min(1.0, ((1 + np.log(2)) / np.exp(-1)) ** weight - 1)
    assert (swarm.first != labels).sum() == pytest.approx(2000 * chance, abs=150)
    # One in forty is far away: so likely is the distance to another not 0 but 10.
    swarm = _Swarm(np.zeros(4, np.uint8), np.ones(2, bool), 8000, rng)
    swarm.first[:], swarm.seen[:, 0] = labels, np.where(labels % 40, 0.0, 10.0)
    swarm.clone(rng, 0.0, weight)
    share = 2 * 39 / 40**2
    near, far = relativize(np.repeat([0.0, 10.0], [round(1e4 * (1 - share)), round(1e4 * share)]))[
        [0, -1]
    ]
    chance = min(1.0, (far / near) ** weight - 1)
    wanted = 8000 * share * (1 - share) * chance
    assert (swarm.first != labels).sum() == pytest.approx(wanted, abs=4 * wanted**0.5)

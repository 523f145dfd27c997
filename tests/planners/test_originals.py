"""Defects of the programs that these planners come from: the numbers that are right."""

import numpy as np
import pytest

from plangym_ext.planners import MCTS, STS, GraphSearch, OpenLoopMCTS


def depth_value(obs):
    """V = 10 * depth in a chain."""
    return None, 10.0 * obs[:, 0]


@pytest.mark.parametrize("cls", [MCTS, STS, OpenLoopMCTS])
def test_the_simulation_ends_where_it_was_rated(models, cls):
    # r = 1, gamma = 0.5, V = 10 * depth. One step too many credited the root with 4.
    options = {} if cls is not STS else {"num_expansions": 1}
    planner = cls(1, discount=0.5, evaluator=depth_value, **options)
    plan = planner.plan(models.chain(6), models.chain(6).state(0), rng=0, obs=np.zeros(1))
    assert plan.value == 1 + 0.5 * 10
    assert plan.budget.model_steps == 1


@pytest.mark.parametrize("cls", [MCTS, STS, OpenLoopMCTS])
def test_a_reward_is_counted_once(models, cls):
    # r = 1, V = 0: the child is worth 1.0, and was said to be worth 1.5.
    options = {} if cls is not STS else {"num_expansions": 1}
    planner = cls(1, discount=0.5, rollout_depth=0, **options)
    plan = planner.plan(models.chain(6), models.chain(6).state(0), rng=0)
    np.testing.assert_array_equal(plan.q, [1.0])


@pytest.mark.parametrize("cls", [MCTS, STS, GraphSearch, OpenLoopMCTS])
def test_nothing_is_credited_through_an_ending(models, cls):
    # Two steps that pay 1, the second ends: 1 + 0.5 * 1 however often it is tried, though
    # the evaluator says 100. A stale value used to be handed up through the ending.
    model = models.TableModel([[1], [2], [2]], np.ones((3, 1)), terminated=[2])
    planner = cls(40, discount=0.5, evaluator=lambda obs: (None, np.full(len(obs), 100.0)))
    plan = planner.plan(model, model.state(0), rng=0, obs=np.zeros(1))
    # The node between was rated 101 once; all that followed saw 1.5.
    assert plan.q[0] < 1 + 0.5 * 100 * 2 / 40 + 1.5
    if cls is not OpenLoopMCTS:  # which replays its paths
        assert plan.budget.model_steps == 2


@pytest.mark.parametrize("cls", [MCTS, STS, OpenLoopMCTS, GraphSearch])
@pytest.mark.parametrize("simulations", [1, 2])
def test_the_histogram_of_a_fresh_tree_is_finite(models, cls, simulations):
    # Counts less the one of a node's creation were 0 / 0.
    model = models.bandit([0, 1, 2])
    planner = cls(simulations, rollout_depth=0)
    plan = planner.plan(model, model.state(0), rng=0, obs=np.zeros(1))
    assert np.isfinite(plan.weights).all()
    assert plan.weights.sum() == pytest.approx(1)


def test_the_prior_counts_from_the_first_simulation_on(models):
    # The root was never counted, so that its bonus was 0 on an episode's first move and the
    # first choice ignored the prior.
    model = models.bandit([0, 0, 0])
    prior = np.array([0.1, 0.1, 0.8])

    def evaluator(obs):
        return np.tile(prior, (len(obs), 1)), np.zeros(len(obs))

    for seed in range(5):
        plan = MCTS(1, wave_size=1, evaluator=evaluator).plan(
            model, model.state(0), rng=seed, obs=np.zeros(1)
        )
        np.testing.assert_array_equal(plan.visits, [0, 0, 1])

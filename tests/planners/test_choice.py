"""Which action a tree search plays, and rollouts that stay in the tree."""

from __future__ import annotations

import numpy as np
import pytest

from plangym_ext.errors import InvalidOption, UnknownName
from plangym_ext.planners import MCTS, STS, OpenLoopMCTS
from plangym_ext.planners.rollouts.final_action import highest
from plangym_ext.planners.trees.rules import best_branches


def planned(planner, model, rng=0):
    return planner.plan(model, model.state(0), rng=rng)


def two_ways(models):
    """Action 0 pays 2 at once; action 1 leads to where 5 or -9 is paid."""
    successor = [[1, 2], [1, 1], [3, 4], [3, 3], [4, 4]]
    reward = [[2.0, 0.0], [0, 0], [5.0, -9.0], [0, 0], [0, 0]]
    return models.TableModel(successor, reward, terminated=[1, 3, 4])


@pytest.mark.parametrize("kind", [MCTS, STS])
def test_the_best_branch_is_played_though_its_mean_is_low(models, kind):
    # With every action tried as often as the others: 2 from the first, (5 - 9) / 2 from the second.
    options = {"c_puct": 1e6, "discount": 0.5, "rollout_depth": 0, "wave_size": 1}
    planner = kind(12, choice="branch", **options)
    plan = planned(planner, two_ways(models))
    assert plan.action == 1
    assert plan.weights.tolist() == [0, 1]
    assert not plan.chosen_by_visits
    assert plan.q[1] < plan.q[0] == 2
    plan = planned(kind(12, choice="value", **options), two_ways(models))
    assert plan.action == 0


def test_branches_of_a_tree_by_hand(models):
    planner = MCTS(8, discount=0.5, rollout_depth=0, choice="branch", wave_size=1, c_puct=1e6)
    found = []

    class Watched(MCTS):
        def _wave_of(self, search):
            found.append(search)
            return super()._wave_of(search)

    planned(
        Watched(
            8,
            **{name: getattr(planner, name) for name in ("discount", "c_puct")},
            rollout_depth=0,
            wave_size=1,
            compiled=False,
        ),
        two_ways(models),
    )
    for run in (best_branches, best_branches.py_func):
        q = np.empty((1, 2))
        run(found[0].tree, q)
        # 2 at once; half of the 5 that is paid a step later.
        assert q.tolist() == [[2.0, 2.5]]


def test_the_highest_score_is_played_then_the_most_visited():
    order = np.array([2, 1, 0])
    assert highest(np.array([9, 1, 1]), np.array([0.0, 1.0, np.nan]), order) == 1
    assert highest(np.array([1, 3, 2]), np.array([1.0, 1.0, 1.0]), order) == 1
    assert highest(np.array([0, 0, 0]), np.array([np.nan] * 3), order) == 2


def test_kept_rollouts_are_nodes_and_cost_nothing_again(models):
    model = models.chain(40)
    options = {"keep_rollouts": True, "rollout_depth": 4, "wave_size": 1, "discount": 1.0}
    plan = planned(MCTS(3, return_tree=True, **options), model)
    # One action: each simulation goes on where the last one ended, and adds 5 nodes.
    assert plan.budget.model_steps == plan.budget.expansions == 15
    assert plan.tree.parent.tolist() == list(range(-1, 15))
    assert plan.visits.tolist() == [3]
    # The rewards of the ways of 5, 10 and 15 steps.
    assert plan.value == pytest.approx((5 + 10 + 15) / 3)


def test_kept_rollouts_end_with_the_episode_and_with_the_room(models):
    options = {"keep_rollouts": True, "rollout_depth": 9, "wave_size": 4}
    plan = planned(MCTS(2, **options), models.chain(6, terminated=[3]))
    assert plan.budget.model_steps == 3
    plan = planned(MCTS(2, capacity=5, **options), models.chain(40))
    assert plan.full
    assert plan.budget.model_steps == 4


def test_rows_with_kept_rollouts_are_those_alone(models):
    model = models.random_mdp(2)
    states = np.stack([model.state(i) for i in (0, 3, 5)])
    options = {"max_model_steps": 60, "keep_rollouts": True, "rollout_depth": 5}
    planner = MCTS(choice="branch", wave_size=3, **options)
    rngs = [np.random.default_rng(i) for i in range(3)]
    for i, plan in enumerate(planner.plan_batch(model, states, rngs=rngs)):
        alone = planner.plan(model, states[i], rng=i)
        np.testing.assert_array_equal(alone.visits, plan.visits)
        np.testing.assert_array_equal(alone.q, plan.q)
        assert alone.action == plan.action
        assert alone.budget.model_steps == plan.budget.model_steps <= 60


def test_an_evaluator_rates_what_rollouts_come_to(models):
    def eight(obs):
        return None, np.full(len(obs), 8.0)

    options = {"keep_rollouts": True, "rollout_depth": 1, "discount": 0.5, "evaluator": eight}
    model = models.chain(9)
    plan = MCTS(1, **options).plan(model, model.state(0), rng=0, obs=np.zeros(1, np.float32))
    assert plan.value == 1 + 0.5 + 0.25 * 8
    # The root, the leaf, and the node of the rollout.
    assert plan.budget.evaluator_rows == 3


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (MCTS, {"choice": "mean"}, "choice"),
        (OpenLoopMCTS, {"choice": "branch"}, "choice"),
        (MCTS, {"choice": "value", "temperature": 1.0}, "choice must be 'visits'"),
        (MCTS, {"choice": "branch", "chance": True}, "must be 'visits' or 'value'"),
        (MCTS, {"keep_rollouts": True, "num_rollouts": 2}, "num_rollouts must be 1"),
        (MCTS, {"keep_rollouts": True, "chance": True}, "chance must be False"),
        (MCTS, {"keep_rollouts": True, "selection": "gumbel"}, "'puct' or 'uct'"),
    ],
)
def test_options_that_contradict_each_other_are_refused(kind, options, message):
    with pytest.raises((InvalidOption, UnknownName), match=message):
        kind(8, **options)

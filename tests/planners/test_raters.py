"""Every search takes every leaf rater, and pays for it what it should."""

from __future__ import annotations

import numpy as np
import pytest

from plangym_ext.planners import MCTS, STS, GraphSearch, OpenLoopMCTS
from plangym_ext.planners.evaluators import from_prior, from_q, from_value


@pytest.fixture
def fork(models):
    """Action 1 leads to where every action pays 1 and ends it, action 0 to where none pays."""
    return models.TableModel([[1, 2], [3, 3], [3, 3], [3, 3]], [[0, 0]] * 2 + [[1, 1], [0, 0]], [3])


def true_q(obs):
    """Undiscounted returns of both actions, by state."""
    return np.array([[0.0, 1], [0, 0], [1, 1], [0, 0]])[obs[:, 0].astype(int)]


def leaning(obs):
    return np.tile([0.4, 0.6], (len(obs), 1))


RATERS = {
    "nothing": {"rollout_depth": 0},
    "random rollouts": {"rollout_depth": 3},
    "rollouts of a policy": {"rollout_policy": leaning, "rollout_depth": 3},
    "value": {"evaluator": from_value(lambda obs: true_q(obs).max(axis=1))},
    "q": {"evaluator": from_q(true_q)},
    "prior and rollouts": {"evaluator": from_prior(leaning), "rollout_depth": 3},
    "prior and value": {"evaluator": lambda obs: (leaning(obs), true_q(obs).max(axis=1))},
}
SEARCHES = {
    "puct": (MCTS, {}),
    "uct": (MCTS, {"selection": "uct"}),
    "gumbel": (MCTS, {"selection": "gumbel"}),
    "sts": (STS, {}),
    "open loop": (OpenLoopMCTS, {}),
    "graph": (GraphSearch, {}),
}
# Greedy, and without priors: it is led by values alone.
CASES = [
    (search, rater)
    for search in SEARCHES
    for rater in RATERS
    if search != "graph" or rater in ("random rollouts", "value", "q")
]


@pytest.mark.parametrize(("search", "rater"), CASES)
def test_the_way_to_the_reward_is_found(fork, search, rater):
    cls, options = SEARCHES[search]
    planner = cls(16, discount=1.0, **options, **RATERS[rater])
    plan = planner.plan(fork, fork.state(0), rng=0, obs=np.zeros(1, np.float32))
    assert plan.action == 1
    # Rated rightly or by playing on, what leads to the reward is worth 1; unrated, at least
    # after the first visit.
    assert 0 < plan.q[1] <= 1
    if rater != "nothing":
        assert plan.q[1] == pytest.approx(1)
    assert plan.budget.model_steps == fork.model_steps
    asked = rater not in ("nothing", "random rollouts")
    assert (plan.budget.evaluator_rows > 0) == asked


@pytest.mark.parametrize("planner", [MCTS, STS, GraphSearch, OpenLoopMCTS])
def test_what_an_evaluator_returned_stays_its_own(fork, planner):
    # It answers with a view of a table of its own, which rollouts must not write their returns to.
    table = np.full(64, 0.25)

    def evaluator(obs):
        return None, table[: len(obs)]

    plan_of = planner(20, evaluator=evaluator, rollout_depth=2)
    plan_of.plan(fork, fork.state(0), rng=0, obs=np.zeros(1, np.float32))
    np.testing.assert_array_equal(table, 0.25)

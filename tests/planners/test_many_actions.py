"""Spaces of many actions: a policy over them takes room for A numbers, not for A times A."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from plangym_ext.errors import InvalidOption
from plangym_ext.planners import IW, MCTS, DiscreteShooting, GraphSearch, RolloutIW
from plangym_ext.planners.plans import one_hot

NUM_ACTIONS = 4_000


@pytest.fixture
def wide(models):
    """A model of two states, each with many actions; the last pays most."""
    to = np.zeros((2, NUM_ACTIONS), int)
    to[:, -1] = 1
    return models.TableModel(to, to.astype(float))


def test_one_hot_rows_are_those_of_the_unit_matrix():
    np.testing.assert_array_equal(one_hot(2, 4), np.eye(4)[2])
    np.testing.assert_array_equal(one_hot(np.array([1, 0, 3]), 4), np.eye(4)[[1, 0, 3]])


@pytest.mark.parametrize(
    "planner",
    [
        DiscreteShooting(8),
        RolloutIW(8),
        IW(8),
        GraphSearch(num_simulations=1),
        MCTS(8, choice="value"),
    ],
    ids=lambda planner: type(planner).__name__,
)
def test_a_plan_needs_no_matrix_of_actions_by_actions(wide, planner):
    obs = np.zeros(1, np.float32)
    planner.plan(wide, wide.state(0), rng=0, obs=obs)  # compiled by now
    planner.reset()
    tracemalloc.start()
    try:
        plan = planner.plan(wide, wide.state(0), rng=0, obs=obs)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert plan.weights.shape == (NUM_ACTIONS,)
    assert plan.weights.sum() == pytest.approx(1.0)
    # A float64 each: 128 MB of the matrix.
    assert peak < NUM_ACTIONS**2


def test_a_plan_for_which_there_is_no_memory_is_told_in_a_line(wide):
    class Large(type(wide)):
        def step_batch(self, actions, states):
            np.empty(1 << 55)

    large = Large(wide.successor, wide.reward)
    with pytest.raises(InvalidOption, match=r"MCTS: there is no memory .* Discrete\(4000\)"):
        MCTS(4).plan(large, large.state(0), rng=0)

from __future__ import annotations

import numpy as np
import pytest

from plangym_ext.planners.lockstep.costs import tally, tally_each, tally_rating, tally_steps
from plangym_ext.planners.rating import all_finite, first_improper


def both(kernel):
    return pytest.mark.parametrize("run", [kernel, kernel.py_func], ids=["jit", "python"])


@both(tally)
def test_tally_counts_a_row_as_often_as_it_is_named(run):
    counter = np.zeros(3, np.int64)
    run(counter, np.array([0, 2, 2], np.int32), 2)
    np.testing.assert_array_equal(counter, [2, 0, 4])


@both(tally_each)
def test_tally_adds_what_each_row_cost(run):
    counter = np.zeros(2, np.int64)
    run(counter, np.array([1, 1], np.int32), np.array([3, 4]))
    np.testing.assert_array_equal(counter, [0, 7])


@both(tally_steps)
def test_a_step_is_counted_in_the_order_of_a_budget(run):
    counters = np.zeros((4, 2), np.int64)
    run(counters, np.array([1, 1]))
    np.testing.assert_array_equal(counters, [[0, 2], [0, 2], [0, 0], [0, 2]])


@both(tally_rating)
def test_ratings_are_counted_in_the_order_of_a_budget(run):
    counters = np.zeros((4, 2), np.int64)
    run(counters, np.array([1]), np.array([2]), np.array([3]), np.array([4]))
    np.testing.assert_array_equal(counters, [[0, 2], [0, 0], [0, 3], [0, 4]])


@both(all_finite)
def test_infinite_and_nan_are_not_finite(run):
    assert run(np.zeros(0))
    assert run(np.array([1.0, -2.0]))
    for wrong in (np.nan, np.inf, -np.inf):
        assert not run(np.array([1.0, wrong]))


@both(first_improper)
def test_a_policy_has_no_negative_entries_and_sums_to_one(run):
    good = np.array([[0.25, 0.75], [1.0, 0.0]], np.float32)
    assert run(good) == -1
    assert run(good[:0]) == -1
    for wrong in ([0.5, 0.6], [-0.5, 1.5], [np.nan, 1.0], [np.inf, 0.0]):
        assert run(np.array([[0.5, 0.5], wrong], np.float32)) == 1

from __future__ import annotations

import numpy as np
import pytest

from plangym_ext.planners.continuous.spline import SPLINES, Spline


def knots_of(*values):
    return np.array(values, float)[None, :, None]


def test_zero_holds_each_knot_and_linear_joins_them():
    held = Spline(6, 3, "zero").sequences(knots_of(1, 5, 3))
    np.testing.assert_array_equal(held[0, :, 0], [1, 1, 5, 5, 3, 3])
    joined = Spline(5, 3, "linear").sequences(knots_of(1, 5, 3))
    np.testing.assert_array_equal(joined[0, :, 0], [1, 3, 5, 4, 3])
    # Seven actions in three pieces: 0 0 0 1 1 2 2.
    uneven = Spline(7, 3, "zero").sequences(knots_of(0, 1, 2))
    np.testing.assert_array_equal(uneven[0, :, 0], [0, 0, 0, 1, 1, 2, 2])


@pytest.mark.parametrize(("hold", "runs"), [(4, [4] * 7 + [2]), (20, [20, 10]), (30, [30])])
def test_a_knot_is_held_for_exactly_as_long_as_asked(hold, runs):
    knots = knots_of(*range(1, len(runs) + 1))
    held = Spline(30, len(runs), "zero", hold).sequences(knots)[0, :, 0]
    np.testing.assert_array_equal(held, np.repeat(knots[0, :, 0], runs))


def test_cubic_goes_through_its_knots_and_is_straight_on_a_line():
    through = Spline(9, 3, "cubic").sequences(knots_of(1, 5, 3))
    np.testing.assert_allclose(through[0, ::4, 0], [1, 5, 3], atol=1e-12)
    # Slopes at the knots are 4, 1, -2. Halfway: (1 + 5) / 2 + (4 - 1) / 8 = 3.375.
    assert through[0, 2, 0] == pytest.approx(3.375)
    line = Spline(9, 3, "cubic").sequences(knots_of(0, 4, 8))
    np.testing.assert_allclose(line[0, :, 0], np.arange(9), atol=1e-12)


@pytest.mark.parametrize("kind", SPLINES)
def test_with_a_knot_per_action_shifting_moves_them_by_one(kind):
    spline = Spline(4, 4, kind)
    knots = knots_of(1, 2, 3, 4)
    np.testing.assert_array_equal(spline.sequences(knots), knots)
    np.testing.assert_array_equal(spline.shifted(knots), knots_of(2, 3, 4, 4))


def test_a_held_action_moves_on_by_its_share_of_a_step():
    # 1 1 2 2 one step later is 1 2 2 2: the pieces' means are 1.5 and 2.
    np.testing.assert_allclose(Spline(4, 2, "zero").shifted(knots_of(1, 2)), knots_of(1.5, 2))


@pytest.mark.parametrize("kind", SPLINES)
def test_rows_and_dimensions_are_apart(kind):
    spline = Spline(10, 4, kind)
    knots = np.random.default_rng(0).normal(size=(5, 4, 3))
    together, later = spline.sequences(knots), spline.shifted(knots)
    for i in range(5):
        np.testing.assert_array_equal(spline.sequences(knots[i : i + 1])[0], together[i])
        np.testing.assert_array_equal(spline.shifted(knots[i : i + 1])[0], later[i])

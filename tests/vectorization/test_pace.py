"""What earlier batches cost says how the next one is cut and waited for."""

import pytest

from plangym_ext.vectorization.pace import Pace

MS = 1e-3
#: Of 10 rows, which took all workers together 10 ms, none longer than usual.
EVEN = {"taken": 10_000_000, "busy": 10_000_000, "excess": 0}
ROWS = {"num_rows": 10, "horizon": 1}


def paced(batches, **figures):
    """After some batches, even but for these figures."""
    pace = Pace()
    play(pace, batches, **figures)
    return pace


def play(pace, batches, **figures):
    for _ in range(batches):
        pace.note(**{**EVEN, **figures}, **ROWS)


def test_a_row_costs_what_rows_have_cost():
    assert paced(1).row_seconds(1) == pytest.approx(MS)
    assert paced(50).row_seconds(3) == pytest.approx(3 * MS)


def test_nothing_is_usual_before_the_first_batch():
    pace = paced(1, excess=9_000_000)
    assert pace.excess is None
    play(pace, 1)
    assert pace.excess == 0


def test_one_uneven_batch_is_remembered_for_some_even_ones():
    pace = paced(2)
    play(pace, 1, excess=5_000_000)
    assert pace.excess == pytest.approx(0.5)
    play(pace, 1)
    assert 0.4 < pace.excess < 0.5
    play(pace, 50)
    assert pace.excess < 0.01


def test_only_short_batches_are_waited_for_awake():
    assert Pace().awake(MS) > MS
    assert paced(50).awake(MS) > MS
    assert paced(50).awake(100 * MS) == 0


def test_processors_that_others_want_are_left_to_them():
    pace = paced(50, busy=5_000_000)
    assert pace.awake(MS) == 0
    play(pace, 50)
    assert pace.awake(MS) > MS


def test_batches_without_any_time_say_nothing_or_that_nobody_was_busy():
    assert paced(50, busy=0).awake(MS) == 0
    assert paced(50, taken=0).row_seconds(1) == Pace().row_seconds(1)

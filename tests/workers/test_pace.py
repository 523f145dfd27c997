"""What earlier batches cost says how the next one is cut and waited for."""

import pytest

from plangym_ext.workers.lane import Lane
from plangym_ext.workers.pace import Pace

MS = 1_000_000
STEPS = 10


@pytest.fixture
def lane():
    """Of a batch that took two workers 5 ms each, no range longer than usual."""
    lane = Lane()
    lane.taken, lane.reporters, lane.ended = 10 * MS, [0, 1], 100 * MS
    yield lane
    lane.queue.close()


def play(pace, lane, batches, late=0):
    for _ in range(batches):
        pace.note(lane, STEPS, lane.ended + late)
    return pace


def test_a_row_costs_what_its_steps_have_cost(lane):
    assert play(Pace(), lane, 1).row_seconds(1) == pytest.approx(1e-3)
    assert play(Pace(), lane, 50).row_seconds(3) == pytest.approx(3e-3)


def test_nothing_is_usual_before_the_first_batch(lane):
    pace = Pace()
    lane.excess = 9 * MS
    assert play(pace, lane, 1).excess is None
    lane.excess = 0
    assert play(pace, lane, 1).excess == 0


def test_one_uneven_batch_is_remembered_for_some_even_ones(lane):
    pace = play(Pace(), lane, 2)
    lane.excess = 5 * MS
    assert play(pace, lane, 1).excess == pytest.approx(0.5)
    lane.excess = 0
    assert 0.4 < play(pace, lane, 1).excess < 0.5
    assert play(pace, lane, 100).excess < 0.01


def test_only_short_batches_are_waited_for_awake(lane):
    for pace in Pace(), play(Pace(), lane, 50):
        assert pace.awake(1e-3) > 1e-3
        assert pace.awake(0.1) == 0


def test_a_processor_that_others_want_is_left_to_them(lane):
    pace = play(Pace(), lane, 50, late=MS // 10)
    assert pace.awake(1e-3) > 0
    assert play(pace, lane, 1, late=4 * MS).awake(1e-3) == 0
    assert play(pace, lane, 5).awake(1e-3) == 0
    assert play(pace, lane, 50).awake(1e-3) > 0


def test_a_batch_in_which_no_time_was_seen_to_pass_says_nothing(lane):
    lane.taken = 0
    pace = play(Pace(), lane, 5, late=MS)
    assert pace.row_seconds(1) == Pace().row_seconds(1)
    assert pace.awake(1e-3) > 0

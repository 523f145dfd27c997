"""What earlier batches cost says how the next one is cut and waited for."""

import pytest

from plangym_ext.workers.row_queue import DONE, Report
from plangym_ext.workers.scheduling import Scheduler

MS = 1_000_000
STEPS = 10


def reports(excess=0, taken=5 * MS):
    """Of a batch that took two workers 5 ms each, one range longer than usual by `excess`."""
    first = Report(request=1, worker=0, rows=5, kind=DONE, taken=taken, excess=0, ended=90 * MS)
    return [first, first._replace(worker=1, excess=excess, ended=100 * MS)]


def play(scheduler, reports, batches, late=0):
    for _ in range(batches):
        scheduler.note(reports, STEPS, 100 * MS + late)
    return scheduler


def row_seconds(scheduler, horizon):
    return scheduler.schedule(1, horizon, 1).row_seconds


def spin(scheduler, seconds):
    """How long to spin for a batch that is expected to take some seconds."""
    rows = round(seconds / row_seconds(scheduler, 1))
    return scheduler.schedule(rows, 1, 1).spin


def test_a_row_costs_what_its_steps_have_cost():
    assert row_seconds(play(Scheduler(), reports(), 1), 1) == pytest.approx(1e-3)
    assert row_seconds(play(Scheduler(), reports(), 50), 3) == pytest.approx(3e-3)


def test_nothing_is_usual_before_the_first_batch():
    scheduler = Scheduler()
    assert play(scheduler, reports(9 * MS), 1).excess is None
    assert play(scheduler, reports(), 1).excess == 0


def test_one_uneven_batch_is_remembered_for_some_even_ones():
    scheduler = play(Scheduler(), reports(), 2)
    assert play(scheduler, reports(5 * MS), 1).excess == pytest.approx(0.5)
    assert 0.4 < play(scheduler, reports(), 1).excess < 0.5
    assert play(scheduler, reports(), 100).excess < 0.01


def test_only_short_batches_are_waited_for_awake():
    for scheduler in Scheduler(), play(Scheduler(), reports(), 50):
        assert spin(scheduler, 1e-3) > 1e-3
        assert spin(scheduler, 0.1) == 0


def test_a_processor_that_others_want_is_left_to_them():
    scheduler = play(Scheduler(), reports(), 50, late=MS // 10)
    assert spin(scheduler, 1e-3) > 0
    assert spin(play(scheduler, reports(), 1, late=4 * MS), 1e-3) == 0
    assert spin(play(scheduler, reports(), 5), 1e-3) == 0
    assert spin(play(scheduler, reports(), 50), 1e-3) > 0


def test_a_batch_in_which_no_time_was_seen_to_pass_says_nothing():
    scheduler = play(Scheduler(), reports(taken=0), 5, late=MS)
    assert row_seconds(scheduler, 1) == row_seconds(Scheduler(), 1)
    assert spin(scheduler, 1e-3) > 0

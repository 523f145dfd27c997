"""What earlier batches cost says how the next one is cut and waited for."""

import pytest

from plangym_ext.workers.row_queue import RowQueue
from plangym_ext.workers.scheduling import Scheduler

MS = 1_000_000
STEPS = 10


@pytest.fixture
def queue():
    """Of a batch that took two workers 5 ms each, no range longer than usual."""
    queue = RowQueue()
    queue.taken, queue.reporters, queue.ended = 10 * MS, [0, 1], 100 * MS
    yield queue
    queue.close()


def play(scheduler, queue, batches, late=0):
    for _ in range(batches):
        scheduler.note(queue, STEPS, queue.ended + late)
    return scheduler


def test_a_row_costs_what_its_steps_have_cost(queue):
    assert play(Scheduler(), queue, 1).row_seconds(1) == pytest.approx(1e-3)
    assert play(Scheduler(), queue, 50).row_seconds(3) == pytest.approx(3e-3)


def test_nothing_is_usual_before_the_first_batch(queue):
    scheduler = Scheduler()
    queue.excess = 9 * MS
    assert play(scheduler, queue, 1).excess is None
    queue.excess = 0
    assert play(scheduler, queue, 1).excess == 0


def test_one_uneven_batch_is_remembered_for_some_even_ones(queue):
    scheduler = play(Scheduler(), queue, 2)
    queue.excess = 5 * MS
    assert play(scheduler, queue, 1).excess == pytest.approx(0.5)
    queue.excess = 0
    assert 0.4 < play(scheduler, queue, 1).excess < 0.5
    assert play(scheduler, queue, 100).excess < 0.01


def test_only_short_batches_are_waited_for_awake(queue):
    for scheduler in Scheduler(), play(Scheduler(), queue, 50):
        assert scheduler.spin(1e-3) > 1e-3
        assert scheduler.spin(0.1) == 0


def test_a_processor_that_others_want_is_left_to_them(queue):
    scheduler = play(Scheduler(), queue, 50, late=MS // 10)
    assert scheduler.spin(1e-3) > 0
    assert play(scheduler, queue, 1, late=4 * MS).spin(1e-3) == 0
    assert play(scheduler, queue, 5).spin(1e-3) == 0
    assert play(scheduler, queue, 50).spin(1e-3) > 0


def test_a_batch_in_which_no_time_was_seen_to_pass_says_nothing(queue):
    queue.taken = 0
    scheduler = play(Scheduler(), queue, 5, late=MS)
    assert scheduler.row_seconds(1) == Scheduler().row_seconds(1)
    assert scheduler.spin(1e-3) > 0

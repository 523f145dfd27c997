"""Ranges cover the rows exactly once, and every claim has one taker."""

import os
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from plangym_ext.workers.row_queue import (
    DONE,
    FAILED,
    MAX_RANGES,
    MORE,
    Claims,
    QueueEnd,
    RowQueue,
)
from plangym_ext.workers.scheduling import split_rows


@given(st.integers(0, 20_000), st.integers(1, 300), st.floats(0, 10), st.none() | st.floats(-1, 1))
@example(0, 1, 1e-5, 0.0)
@example(1, 300, 1e-5, 0.0)
@example(100_000, 300, 1.0, None)
@example(1_000_000, 1, 0.0, 0.0)
@settings(max_examples=200, deadline=None)
def test_ranges_cover_every_row_once_in_order_and_fit_the_queue(
    num_rows, num_workers, seconds, excess
):
    ranges = split_rows(num_rows, num_workers, seconds, excess)
    assert all(first < stop for first, stop in ranges)
    starts = [first for first, _ in ranges]
    stops = [stop for _, stop in ranges]
    assert [0, *stops] == [*starts, num_rows]
    assert len(ranges) <= MAX_RANGES


def sizes(*arguments):
    return [stop - first for first, stop in split_rows(*arguments)]


def test_ranges_shrink_and_leave_something_for_everyone():
    # Of 64 rows, 2 workers: a sixth of what is left, at least 2 of 50 us.
    assert sizes(64, 2, 50e-6) == [10, 10, 7, 7, 5, 5, 3, 3, *[2] * 6, 1, 1]
    assert len(split_rows(2, 3, 1.0)) == 2


def test_even_rows_are_shared_out_at_once_but_for_a_few():
    assert sizes(64, 2, 50e-6, 0.0) == [28, 28, 3, 3, 1, 1]
    assert sizes(64, 2, 50e-6, -0.1) == sizes(64, 2, 50e-6, 0.05) == sizes(64, 2, 50e-6, 0.0)
    assert sizes(64, 2, 50e-6, 0.19) == [19, 19, 8, 8, 3, 3, 2, 2]
    assert sizes(64, 2, 50e-6, 1.0) == sizes(64, 2, 50e-6)


def test_light_batches_are_cut_into_equal_parts():
    assert sizes(16, 2, 10e-6) == [8, 8]
    assert sizes(7, 3, 10e-6) == [2, 2, 3]
    assert sizes(3, 8, 20e-6) == [1, 1, 1]


def test_the_lightest_batches_are_not_cut():
    assert sizes(5, 2, 10e-6) == [5]
    assert sizes(100, 2, 0.0) == [100]


def test_rows_that_cost_much_are_claimed_one_by_one_in_the_end():
    assert sizes(12, 2, 0.1) == [2, 2, *[1] * 8]


@pytest.fixture
def queue():
    queue = RowQueue()
    yield queue
    queue.close()


def ends(queue, count):
    return [QueueEnd(*queue.worker_fds, index) for index in range(count)]


def test_each_claim_is_given_once(queue):
    one, two = ends(queue, 2)
    queue.offer(7, 3, [(0, 5), (5, 8), (8, 9)], 50, 2)
    assert one.take() == (7, 3, 0, 5, 50)
    assert two.take() == (7, 3, 5, 8, 50)
    assert one.take() == (7, 3, 8, 9, 50)
    assert one.take() is two.take() is None


def test_rows_count_once_the_next_range_is_asked_for(queue):
    (end,) = ends(queue, 1)
    queue.offer(7, 3, [(0, 5), (5, 8)], 50, 2)
    claims = Claims(end, end.take())
    assert [(rows, claims.rows) for rows in claims] == [((0, 5), 0), ((5, 8), 5)]
    assert (claims.rows, claims.ahead) == (8, None)


def test_ranges_end_where_another_batch_begins(queue):
    (end,) = ends(queue, 1)
    queue.offer(1, 3, [(0, 1)], 50, 2)
    queue.offer(2, 3, [(1, 2)], 50, 2)
    claims = Claims(end, end.take())
    assert list(claims) == [(0, 1)]
    assert list(Claims(end, claims.ahead)) == [(1, 2)]


def test_what_a_range_takes_longer_than_usual_is_noted(queue):
    (end,) = ends(queue, 1)
    hour = 3600 * 10**9
    queue.offer(7, 3, [(0, 5)], hour, 2)
    claims = Claims(end, end.take())
    assert list(claims) == [(0, 5)]
    assert claims.excess == 0
    queue.offer(8, 3, [(0, 5), (5, 8)], 0, 2)
    claims = Claims(end, end.take())
    assert list(claims) == [(0, 5), (5, 8)]
    assert 0 < claims.excess < hour


@pytest.mark.parametrize("who", ["parent", "worker"])
def test_discarded_claims_are_gone(queue, who):
    (end,) = ends(queue, 1)
    queue.offer(1, 3, [(k, k + 1) for k in range(MAX_RANGES)], 50, 2)
    (queue if who == "parent" else end).discard()
    assert end.take() is None
    assert not end.closed


def claimed(end, first, stop):
    """The claims of a worker that has run a range."""
    claims = Claims(end, (1, 3, first, stop, 50))
    claims.rows, claims.excess = stop - first, 20
    return claims


def test_reports_are_read_once(queue):
    one, two = ends(queue, 2)
    begun = time.monotonic_ns()
    queue.offer(1, 3, [(0, 5), (5, 8)], 50, 2)
    one.report(claimed(one, 0, 5), 1, DONE, begun)
    two.report(claimed(two, 5, 8), 1, FAILED, begun)
    queue.hear()
    first, second = queue.heard
    assert (queue.rows_left, queue.speakers, queue.failed) == (0, [1], True)
    assert first[:4] == (1, 0, 5, DONE)
    assert second[:4] == (1, 1, 3, FAILED)
    for *_, taken, excess, ended in first, second:
        assert (taken, excess) == (ended - begun, 20)
    two.report(claimed(two, 0, 1), 1, MORE, begun)  # late: of a round that is over
    queue.discard()
    queue.offer(2, 3, [(0, 1)], 50, 2)
    two.report(claimed(two, 0, 1), 2, MORE, begun)
    for _ in range(2):
        queue.hear()
        assert [report[:4] for report in queue.heard] == [(2, 1, 1, MORE)]
    assert (queue.rows_left, queue.speakers, queue.failed) == (0, [1], False)


def test_closed_queue_ends_the_claims(queue):
    reader, writer = map(os.dup, queue.worker_fds)
    end = QueueEnd(reader, writer, 0)
    queue.close()
    queue.close()
    assert end.take() is None
    assert end.closed
    os.close(reader)
    os.close(writer)

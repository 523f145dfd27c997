"""Ranges cover the rows exactly once, and every claim has one taker."""

import os

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from plangym_ext.vectorization.claims import MAX_RANGES, ClaimQueue, claims, split_rows


@given(st.integers(0, 20_000), st.integers(1, 300), st.floats(0, 10))
@example(0, 1, 1e-5)
@example(1, 300, 1e-5)
@example(100_000, 300, 1.0)
@example(1_000_000, 1, 0.0)
@settings(max_examples=200, deadline=None)
def test_ranges_cover_every_row_once_in_order_and_fit_the_queue(num_rows, num_workers, seconds):
    ranges = split_rows(num_rows, num_workers, seconds)
    assert all(first < stop for first, stop in ranges)
    starts = [first for first, _ in ranges]
    stops = [stop for _, stop in ranges]
    assert [0, *stops] == [*starts, num_rows]
    assert len(ranges) <= MAX_RANGES


def sizes(*arguments):
    return [stop - first for first, stop in split_rows(*arguments)]


def test_ranges_shrink_and_leave_something_for_everyone():
    # Of 64 rows, 2 workers: a sixth of what is left, at least 2 of 100 us.
    assert sizes(64, 2, 100e-6) == [10, 9, 7, 6, 5, 4, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2, 1]
    assert len(split_rows(2, 3, 1.0)) == 2


def test_light_batches_are_cut_into_equal_parts():
    assert sizes(16, 2, 10e-6) == [8, 8]
    assert sizes(7, 3, 10e-6) == [2, 2, 3]
    assert sizes(3, 8, 10e-6) == [1, 1, 1]


def test_rows_that_cost_much_are_claimed_one_by_one_in_the_end():
    assert sizes(12, 2, 0.1) == [2, *[1] * 10]


@pytest.fixture
def queue():
    queue = ClaimQueue()
    yield queue
    queue.close()


def test_each_claim_is_given_once(queue):
    queue.offer(7, [(0, 5), (5, 8), (8, 9)])
    one, two = claims(queue.read_fd, 7), claims(queue.read_fd, 7)
    assert [next(one), next(two), next(one)] == [(0, 5), (5, 8), (8, 9)]
    assert list(one) == list(two) == []


def test_claims_of_another_batch_are_dropped(queue):
    queue.offer(1, [(0, 1)])
    queue.offer(2, [(1, 2)])
    assert list(claims(queue.read_fd, 2)) == [(1, 2)]


def test_discarded_claims_are_gone(queue):
    queue.offer(1, [(k, k + 1) for k in range(MAX_RANGES)])
    queue.discard()
    assert list(claims(queue.read_fd, 1)) == []


def test_closed_queue_ends_the_claims(queue):
    reader = os.dup(queue.read_fd)
    queue.close()
    queue.close()
    assert list(claims(reader, 1)) == []
    os.close(reader)

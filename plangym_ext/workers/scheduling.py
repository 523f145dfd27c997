"""Scheduler: sizes of row ranges and spin-waiting, from measured batch costs.

What batches have cost decides both. Each number here was measured; see docs/architecture.md.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
import select
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from plangym_ext.workers.row_queue import MAX_RANGES, Ranges, Report

#: Seconds that a step is expected to cost before one was seen.
_USUAL_STEP = 30e-6
#: Seconds for which it is worth spinning for a batch that should end within them.
_SPIN = 2e-3
#: Seconds for which a worker spins for the next batch: at least, whatever was done before, and
#: at most.
_LEAST_SPIN, _MOST_SPIN = 250e-6, 500e-6
#: What part of a batch may pass until its end is noticed; more, and others want the processor.
_LATE = 0.25
#: What the last batch adds to what is known, and what it takes from an excess and a delay.
_NEW, _FORGOTTEN = 0.2, 0.05

#: A range is worth claiming if it takes this long: some five times what the claim costs.
_LEAST_SECONDS = 100e-6
#: A batch that takes no longer than this is not shared: a second worker would be under way
#: only when the first is done.
_ALONE_SECONDS = 50e-6
#: Bounds of the times by which a share may exceed what it should be. Something is always
#: kept back, for workers do not begin together; and single rows that cost much more are no
#: reason to cut all the others more finely.
_LEAST_UNEVEN, _MOST_UNEVEN = 9 / 8, 3.0


class Schedule(NamedTuple):
    """Ranges and waiting time of one batch.

    Attributes:
        ranges: that its rows are cut into, `(first, stop)`; not to be written to.
        row_seconds: what a row is expected to cost a worker.
        spin: seconds for which to wait for it without going to sleep.
    """

    ranges: Ranges
    row_seconds: float
    spin: float


class Scheduler:
    """Measured costs of a pool's batches, and the schedule of the next.

    Attributes:
        excess: by how much one range took longer than usual, as a part of the time that all
            workers took for its batch; None as long as nothing is usual.
    """

    def __init__(self) -> None:
        self.excess: float | None = None
        self._step_seconds: float | None = None
        self._late = 0.0

    def schedule(self, num_rows: int, horizon: int, num_workers: int) -> Schedule:
        """Return how to run B rows of H actions on some workers."""
        step = self._step_seconds
        seconds = horizon * (_USUAL_STEP if step is None else step)
        ranges = split_rows(num_rows, num_workers, seconds, self.excess)
        # Spin only on an idle processor: a spinner that yields is rescheduled late, where one
        # that sleeps is woken at once.
        spins = seconds * num_rows / num_workers < _SPIN and self._late < _LATE
        return Schedule(ranges, seconds, _SPIN if spins else 0.0)

    def note(self, reports: Sequence[Report], num_steps: int, noticed: int) -> None:
        """Record the cost of a batch.

        Args:
            reports: of all workers that ran rows of it.
            num_steps: of all rows.
            noticed: when that was seen, in `time.monotonic_ns()`.
        """
        taken = sum([report.taken for report in reports])
        if not taken:  # a clock too coarse to see it
            return
        ended = max([report.ended for report in reports])
        late = (noticed - ended) * len(reports) / taken
        # Here and below: more at once, less slowly.
        self._late = max(min(late, 1.0), self._late + _FORGOTTEN * (min(late, 1.0) - self._late))
        step = 1e-9 * taken / num_steps
        if self._step_seconds is None:
            self._step_seconds = step
            return
        self._step_seconds += _NEW * (step - self._step_seconds)
        excess = max([report.excess for report in reports]) / taken
        known = excess if self.excess is None else self.excess
        self.excess = max(excess, known + _FORGOTTEN * (excess - known))


# Spinning ---------------------------------------------------------------------------


def spin(poller: select.poll, seconds: float) -> list[tuple[int, int]]:
    """Return a poller's events, after spinning for at most some seconds.

    To be woken costs tens of microseconds, and on a busy machine the system may run the
    woken end in place of the one that wakes it. Others that want the processor get it in
    between.
    """
    deadline = time.monotonic() + seconds
    while not (events := poller.poll(0)) and time.monotonic() < deadline:
        os.sched_yield()
    return events


class SpinWait:
    """Spins if the wait before was short.

    In a loop of batches it is. A parent that computes for longer than the batch took needs
    the processors meanwhile: threads that wait for each other, as those of torch, get nowhere
    beside others that spin.

    Args:
        poller: with what is waited for.
    """

    def __init__(self, poller: select.poll) -> None:
        self._poller = poller
        self._soon = True

    def wait(self, worked: float) -> list[tuple[int, int]]:
        """Return at least one event of the poller.

        Args:
            worked: seconds that were worked since the last wait.
        """
        patience = min(max(_LEAST_SPIN, worked), _MOST_SPIN)
        began = time.monotonic()
        events = spin(self._poller, patience) if self._soon else []
        events = events or self._poller.poll()
        self._soon = time.monotonic() - began < patience
        return events


# Cutting ----------------------------------------------------------------------------


def split_rows(
    num_rows: int, num_workers: int, row_seconds: float, excess: float | None = None
) -> Ranges:
    """Cut rows into ranges `(first, stop)`, larger ones first.

    Rounds of one range for each worker, equal ones, each round with a share of what is left
    (factoring, Flynn Hummel, Schonberg & Flynn 1992). The share is such that a worker whose
    range takes longer than usual, by as much as was seen, is done with it when all have had
    their part. A range takes at least `_LEAST_SECONDS`: a claim costs about as much as
    stepping a light env. A batch that is too light for that is cut into equal parts.

    Args:
        num_rows: B.
        num_workers: how many will claim ranges.
        row_seconds: what a row is expected to cost.
        excess: by how much one range may take longer than usual, as a part of the time that
            all workers take together; None if it is not known.
    """
    if num_workers == 1 or num_rows < 2 or num_rows * row_seconds <= _ALONE_SECONDS:
        return [(0, num_rows)] if num_rows else []
    # A row that takes no time at all makes any range too small.
    share = min(num_rows, _LEAST_SECONDS / max(row_seconds, _LEAST_SECONDS / num_rows))
    smallest = max(math.ceil(share), -(-num_rows // (MAX_RANGES // 2)))
    # Of the whole, a worker's share is 1/W; a first range with the excess is to be no more.
    apart = 0.0 if excess is None else max(1 - num_workers * excess, 0.0)
    eighths = round(8 / apart) if apart > 1 / _MOST_UNEVEN else round(8 * _MOST_UNEVEN)
    return _cut(num_rows, num_workers, smallest, eighths)


@functools.lru_cache(256)
def _cut(num_rows: int, num_workers: int, smallest: int, eighths: int) -> Ranges:
    """Cut rounds, each a share of what is left over `eighths / 8`; not to be written to."""
    if num_rows <= 3 * num_workers * smallest:
        return _equal_parts(0, num_rows, num_workers)
    uneven = max(eighths / 8, _LEAST_UNEVEN)
    ranges: Ranges = []
    first = 0
    while first < num_rows:
        left = num_rows - first
        stop = first + num_workers * max(smallest, int(left / (uneven * num_workers)))
        if num_rows - stop < smallest:
            stop = num_rows
        ranges += _equal_parts(first, stop, num_workers)
        first = stop
    return ranges


def _equal_parts(first: int, stop: int, count: int) -> Ranges:
    """Return at most `count` ranges, as long as each other or one longer."""
    count = min(count, stop - first)
    edges = [first + (stop - first) * k // count for k in range(count + 1)]
    return list(itertools.pairwise(edges))


def ranges_of(rows: np.ndarray) -> Ranges:
    """Return ranges that cover some rows, `[n]` int64 in order.

    Each is a single row, so that one that kills its worker takes no other along; ranges are
    longer if there are more rows than the queue can hold.
    """
    size = max(1, -(-len(rows) // MAX_RANGES))
    # Rows that lie between are done, and running them again gives the same.
    return [
        (int(rows[k]), int(rows[min(k + size, len(rows)) - 1]) + 1)
        for k in range(0, len(rows), size)
    ]

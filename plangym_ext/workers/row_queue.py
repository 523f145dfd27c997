"""RowQueue: queue of row ranges that idle workers claim.

parent                                 workers
offer ranges      ==== claims ====>    each reads one range at a time
reports           <=== reports ====    "I have run n rows", after the last range

Both are pipes that all workers share. The parent writes every range of a batch at once,
which wakes those that wait: no worker has to be called by name. A read or write of a whole
token is atomic, so a range is run by exactly one worker, and none waits for another.
"""

from __future__ import annotations

import itertools
import os
import struct
import time
import weakref
from collections.abc import Iterator
from typing import NamedTuple

_CLAIM = struct.Struct("<QIIIQ")  # request, layout, first row, end row, usual time
_REPORT = struct.Struct("<QIIIQQQ")  # request, worker, rows, what more there is to hear, times
#: Most ranges that the queue holds at once: what a pipe takes without blocking.
MAX_RANGES = 65536 // _CLAIM.size

#: Reports that are read at once: to get memory for more takes longer than to read twice.
_MAX_REPORTS = 64

#: A report that says all; one with more to hear on the worker's channel; one of a failure,
#: which is to be heard there too.
DONE, MORE, FAILED = 0, 1, 2

#: Runs of rows, each `(first, stop)`.
Ranges = list[tuple[int, int]]
#: Request, layout, first row, row after the last, and the nanoseconds that a row usually takes.
Claim = tuple[int, int, int, int, int]


class Report(NamedTuple):
    """A worker's report when no range is left to claim.

    Attributes:
        request: number of the round.
        worker: its number among those that share the queue.
        rows: how many it has run.
        kind: `DONE`, `MORE` or `FAILED`.
        taken: nanoseconds that it took.
        excess: nanoseconds by which one of its ranges took longer than usual, at most.
        ended: when it was through, in `time.monotonic_ns()`.
    """

    request: int
    worker: int
    rows: int
    kind: int
    taken: int
    excess: int
    ended: int


#: Numbers that a worker knows memory, queues and layouts by; it may serve several pools.
numbers = itertools.count()


class RowQueue:
    """The parent's ends of the queue, and the progress of its batch: one at a time.

    A batch is offered in rounds; the next one begins when no worker runs rows of the last.

    Attributes:
        number: that workers know the queue by.
        report_fd: readable when there are reports.
        worker_fds: what workers need to make a `QueueEnd`.
        request: number of the round.
        heard: what workers have reported of it.
        rows_left: rows of it that no worker has reported.
        speakers: numbers of workers with further messages of it on their channels.
        failed: whether one of them has failed.
        sharers: workers that there was a row for.
    """

    def __init__(self) -> None:
        self.number = next(numbers)
        claim_fd, self._offer_fd = os.pipe()
        try:
            self.report_fd, write_fd = os.pipe()
        except OSError:
            _close((claim_fd, self._offer_fd))
            raise
        self.worker_fds = (claim_fd, write_fd)
        # Workers share these descriptors' flags; an empty queue must not block them.
        for fd in (claim_fd, self._offer_fd, self.report_fd):
            os.set_blocking(fd, False)
        fds = (claim_fd, self._offer_fd, self.report_fd, write_fd)
        self._finalizer = weakref.finalize(self, _close, fds)
        self.request = -1
        self.rows_left = self.sharers = 0
        self.heard: list[Report] = []
        self.speakers: list[int] = []
        self.failed = False

    def offer(self, request: int, layout: int, ranges: Ranges, usual: int, workers: int) -> None:
        """Begin a round: put ranges up for claiming; the queue must be empty.

        Args:
            request: number of the round.
            layout: number of the batch's layout.
            ranges: of its rows; at most `MAX_RANGES`.
            usual: nanoseconds that a row is expected to take.
            workers: how many may claim.
        """
        assert len(ranges) <= MAX_RANGES
        self.request, self.heard, self.speakers, self.failed = request, [], [], False
        self.rows_left = sum([stop - first for first, stop in ranges])
        self.sharers = min(workers, self.rows_left)
        claims = [_CLAIM.pack(request, layout, first, stop, usual) for first, stop in ranges]
        os.write(self._offer_fd, b"".join(claims))

    def hear(self) -> None:
        """Take in new reports of the round."""
        try:
            # Those that do not fit keep it readable.
            data = os.read(self.report_fd, _REPORT.size * _MAX_REPORTS)
        except BlockingIOError:
            return
        for report in map(Report._make, _REPORT.iter_unpack(data)):
            if report.request == self.request:
                self.heard.append(report)
                self.rows_left -= report.rows
                if report.kind != DONE:
                    self.speakers.append(report.worker)
                    self.failed = self.failed or report.kind == FAILED

    def discard(self) -> None:
        """Take back every range that was not claimed."""
        _drain(self.worker_fds[0])

    def close(self) -> None:
        """Close all ends; further calls do nothing."""
        self._finalizer()
        self.report_fd = self._offer_fd = -1


class QueueEnd:
    """A worker's end.

    Args:
        claim_fd: non-blocking, to read claims from.
        report_fd: to write reports to.
        index: the worker's number among those that share the queue.

    Attributes:
        closed: whether the parent has closed its ends, as far as was seen.
    """

    def __init__(self, claim_fd: int, report_fd: int, index: int) -> None:
        self.claim_fd, self.report_fd, self.index = claim_fd, report_fd, index
        self.closed = False

    def take(self) -> Claim | None:
        """Claim a range and return it; None if there is none."""
        try:
            token = os.read(self.claim_fd, _CLAIM.size)
        except BlockingIOError:
            return None
        if not token:
            self.closed = True
            return None
        request, layout, first, stop, usual = _CLAIM.unpack(token)
        return request, layout, first, stop, usual

    def report(self, claims: Claims, request: int, kind: int, begun: int) -> None:
        """Report the number of rows run here, when none are left to claim.

        Args:
            claims: what was claimed of it.
            request: its number.
            kind: `DONE`, `MORE` or `FAILED`.
            begun: when the first was claimed, in `time.monotonic_ns()`.
        """
        now = time.monotonic_ns()
        figures = request, self.index, claims.rows, kind, now - begun, claims.excess, now
        os.write(self.report_fd, _REPORT.pack(*figures))

    def discard(self) -> None:
        """Claim everything left, so that no worker runs it."""
        _drain(self.claim_fd)


class Claims:
    """The ranges of one batch that a worker claims, one after another.

    Attributes:
        rows: how many of them have been run: those of all ranges before the present one.
        excess: nanoseconds by which one of those ranges took longer than usual, at most.
        ahead: a claim of another batch, if one was met; it ends the ranges.
    """

    def __init__(self, end: QueueEnd, claim: Claim) -> None:
        self._end, self._first = end, claim
        self.ahead: Claim | None = None
        self.rows = self.excess = 0

    def __iter__(self) -> Iterator[tuple[int, int]]:
        claim: Claim | None = self._first
        request = self._first[0]
        while claim is not None and claim[0] == request:
            _, _, first, stop, usual = claim
            self.ahead = None
            begun = time.monotonic_ns()
            yield first, stop
            excess = time.monotonic_ns() - begun - (stop - first) * usual
            self.excess = max(self.excess, excess)
            self.rows += stop - first
            self.ahead = claim = self._end.take()


def _drain(fd: int) -> None:
    try:
        # More than a pipe holds, and at its end nothing.
        while os.read(fd, 1 << 20):
            pass
    except BlockingIOError:
        pass


def _close(fds: tuple[int, ...]) -> None:
    for fd in fds:
        os.close(fd)

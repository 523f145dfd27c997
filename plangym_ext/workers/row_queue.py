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
import select
import struct
import time
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from plangym_ext.workers.channel import spin, wait_readable

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
    """The parent's ends, and how far the batch is that the queue serves: one at a time.

    A batch is offered in rounds; the next one begins when no worker runs rows of the last.

    Attributes:
        number: that workers know the queue by.
        report_fd: readable when there are reports.
        worker_fds: what workers need to make a `QueueEnd`.
        request: number of the round.
        heard: what workers have reported of it.
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
        self._rows = self.sharers = 0
        self.heard: list[Report] = []

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
        self.request, self.heard = request, []
        self._rows = sum([stop - first for first, stop in ranges])
        self.sharers = min(workers, self._rows)
        claims = [_CLAIM.pack(request, layout, first, stop, usual) for first, stop in ranges]
        os.write(self._offer_fd, b"".join(claims))

    @property
    def rows_left(self) -> int:
        """Rows of the round that no worker has reported."""
        return self._rows - sum([report.rows for report in self.heard])

    @property
    def speakers(self) -> list[int]:
        """Numbers of workers with further messages of the round on their channels."""
        return [report.worker for report in self.heard if report.kind != DONE]

    @property
    def failed(self) -> bool:
        """Whether one of them has failed."""
        return any(report.kind == FAILED for report in self.heard)

    def reports(self) -> list[Report]:
        """Return new reports of the workers, of any round."""
        try:
            # Those that do not fit keep it readable.
            data = os.read(self.report_fd, _REPORT.size * _MAX_REPORTS)
        except BlockingIOError:
            return []
        return [Report(*values) for values in _REPORT.iter_unpack(data)]

    def discard(self) -> None:
        """Take back every range that was not claimed."""
        _drain(self.worker_fds[0])

    def close(self) -> None:
        """Close all ends; further calls do nothing."""
        self._finalizer()
        self.report_fd = self._offer_fd = -1


class Watched(Protocol):
    """Protocol of a worker in a pool's event loop."""

    #: A `WorkerProcess`.
    process: Any

    @property
    def fallen(self) -> Exception | None:
        """How it ended, once that was seen."""

    def death(self) -> Exception:
        """Note that it is gone."""

    def receive(self) -> None:
        """Read the worker's channel."""


class Arrivals:
    """The queues of a pool, and the event loop over its workers' messages.

    Args:
        workers: of the pool; their processes may be replaced.
    """

    def __init__(self, workers: Sequence[Watched]) -> None:
        self._workers = workers
        self._free: list[RowQueue] = []
        #: By the descriptor that reports are read from.
        self._queues: dict[int, RowQueue] = {}
        self._poller = select.poll()
        self._watched: dict[int, Watched] = {}
        self._watched_processes: list[object] = []

    def take_queue(self) -> RowQueue:
        """Return a queue that no batch uses."""
        if self._free:
            return self._free.pop()
        queue = RowQueue()
        self._queues[queue.report_fd] = queue
        self._poller.register(queue.report_fd, select.POLLIN)
        return queue

    def give_back(self, queue: RowQueue) -> None:
        """Release a queue for another batch, when no worker runs rows of the last one."""
        self._free.append(queue)

    def pump(self, timeout: float | None, spinning: float = 0.0) -> bool:
        """Take in reports and answers, and notice deaths, of any worker.

        Args:
            timeout: seconds to wait for the first of them; None waits as long as it takes.
            spinning: seconds before those that are spent without going to sleep.

        Returns:
            Whether anything came.
        """
        self._watch()
        events = spin(self._poller, spinning) if spinning else []
        if not events:
            events = self._poller.poll(None if timeout is None else timeout * 1000)
        for fd, _ in events:
            if (queue := self._queues.get(fd)) is not None:
                queue.heard += [one for one in queue.reports() if one.request == queue.request]
                continue
            worker = self._watched.get(fd)
            if worker is None or worker.fallen is not None:
                continue
            if fd == worker.process.pidfd and not wait_readable(
                [worker.process.channel.fileno()], 0
            ):
                # A process that the env started may still hold the socket open.
                worker.death()
            else:
                worker.receive()
        return bool(events)

    def _watch(self) -> None:
        """Poll the workers of now: some may have been replaced since the last time."""
        processes = [worker.process for worker in self._workers if worker.process.fallen is None]
        if processes == self._watched_processes:
            return
        self._poller = select.poll()
        for fd in self._queues:
            self._poller.register(fd, select.POLLIN)
        self._watched.clear()
        for worker in self._workers:
            if worker.fallen is None:
                for fd in worker.process.signs:
                    self._poller.register(fd, select.POLLIN)
                    self._watched[fd] = worker
        self._watched_processes = processes

    def close(self) -> None:
        """Close all queues and watch nothing."""
        self._watched.clear()
        for queue in self._queues.values():
            queue.close()
        self._queues.clear()
        self._free.clear()


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
        self.claim_fd, self._report_fd, self.index = claim_fd, report_fd, index
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
        os.write(self._report_fd, _REPORT.pack(*figures))

    def discard(self) -> None:
        """Claim everything left, so that no worker runs it."""
        _drain(self.claim_fd)


class Claims:
    """The ranges of one batch that a worker claims, one after another.

    Args:
        end: to take them from.
        claim: the first, taken already.

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

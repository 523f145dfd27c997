"""A claim queue, and how far the batch is that it serves."""

from __future__ import annotations

import itertools

from plangym_ext.workers.claims import DONE, FAILED, ClaimQueue

# Numbers that a worker knows memory and queues by; it may serve several crews.
numbers = itertools.count()


class Lane:
    """Serves one batch at a time, a round of ranges at a time.

    Attributes:
        number: that workers know it by.
        queue: its claim queue.
        rows_left: rows of the round that no worker has reported.
        reporters: workers, by number, that have reported.
        sharers: workers that there was a row for.
        speakers: workers, by number, that have more to say of the round on their channels.
        failed: whether one of them has failed.
        taken: nanoseconds that those who have reported took.
        excess: nanoseconds by which one of their ranges took longer than usual, at most.
        ended: when the last of them was through, in `time.monotonic_ns()`.
    """

    def __init__(self) -> None:
        self.number = next(numbers)
        self.queue = ClaimQueue()
        self._request = -1
        self.rows_left = self.sharers = 0
        self.taken = self.excess = self.ended = 0
        self.reporters: list[int] = []
        self.speakers: list[int] = []
        self.failed = False

    def begin(self, request: int, ranges: list[tuple[int, int]], num_workers: int) -> None:
        """Begin a round for some workers; nobody runs rows of the one before."""
        self._request = request
        self.rows_left = sum([stop - first for first, stop in ranges])
        self.sharers = min(num_workers, self.rows_left)
        self.reporters.clear()
        self.speakers.clear()
        self.failed = False
        self.taken = self.excess = self.ended = 0

    def collect(self) -> None:
        """Take in what workers have reported."""
        for request, worker, rows, kind, taken, excess, ended in self.queue.reports():
            if request == self._request:
                self.rows_left -= rows
                self.reporters.append(worker)
                self.taken += taken
                self.ended = max(self.ended, ended)
                self.excess = max(self.excess, excess)
                if kind != DONE:
                    self.speakers.append(worker)
                    self.failed = self.failed or kind == FAILED

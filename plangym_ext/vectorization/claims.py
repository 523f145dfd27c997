"""Who runs which rows: a queue of row ranges that idle workers take from.

The queue is a pipe. The parent writes every range of a batch at once, each worker
reads one range at a time until none is left. A read of a whole token is atomic, so
a range is run by exactly one worker and no worker waits for another. Ranges shrink
towards the end of the batch, which evens out rows of unequal cost.
"""

from __future__ import annotations

import itertools
import math
import os
import struct
import weakref
from collections.abc import Iterator

_TOKEN = struct.Struct("<QII")  # request, first row, row behind the last
#: Most ranges that the queue holds at once: what a pipe takes without blocking.
MAX_RANGES = 65536 // _TOKEN.size
#: A range is worth claiming if it takes this long: some fifteen times what the claim costs.
_LEAST_SECONDS = 200e-6


def split_rows(num_rows: int, num_workers: int, row_seconds: float) -> list[tuple[int, int]]:
    """Ranges `(first, stop)` that cover `num_rows` rows, larger ones first.

    A range is a share of what is left (guided self-scheduling, Polychronopoulos &
    Kuck 1987), but takes at least `_LEAST_SECONDS`: a claim costs about as much as
    stepping a light env. A batch that is too light for that is cut into equal parts.

    Args:
        num_rows: B.
        num_workers: how many will claim ranges.
        row_seconds: what a row is expected to cost.
    """
    if num_workers == 1 or num_rows < 2:
        return [(0, num_rows)] if num_rows else []
    # A row that takes no time at all makes any range too small.
    share = min(num_rows, _LEAST_SECONDS / max(row_seconds, _LEAST_SECONDS / num_rows))
    smallest = max(math.ceil(share), -(-num_rows // (MAX_RANGES // 2)))
    if num_rows <= 3 * num_workers * smallest:
        edges = [num_rows * k // num_workers for k in range(num_workers + 1)]
        return [(a, b) for a, b in itertools.pairwise(edges) if b > a]
    ranges, first = [], 0
    while first < num_rows:
        left = num_rows - first
        size = min(left, max(smallest, left // (3 * num_workers)))
        ranges.append((first, first + size))
        first += size
    return ranges


class ClaimQueue:
    """The parent's end: both descriptors of the pipe."""

    def __init__(self) -> None:
        self.read_fd, self._write_fd = os.pipe()
        # Workers share this descriptor's flags; an empty queue must not block them.
        os.set_blocking(self.read_fd, False)
        os.set_blocking(self._write_fd, False)
        self._finalizer = weakref.finalize(self, _close, (self.read_fd, self._write_fd))

    def offer(self, request: int, ranges: list[tuple[int, int]]) -> None:
        """Put the ranges of one batch up for claiming; the queue must be empty."""
        assert len(ranges) <= MAX_RANGES
        data = b"".join(_TOKEN.pack(request, first, stop) for first, stop in ranges)
        os.write(self._write_fd, data)

    def discard(self) -> None:
        """Take back every range that nobody has claimed."""
        for _ in claims(self.read_fd, None):
            pass

    def close(self) -> None:
        """Close both ends; further calls do nothing."""
        self._finalizer()
        self.read_fd = self._write_fd = -1


def _close(fds: tuple[int, ...]) -> None:
    for fd in fds:
        os.close(fd)


def claims(fd: int, request: int | None) -> Iterator[tuple[int, int]]:
    """Claim ranges from the queue behind `fd` until it is empty.

    Args:
        fd: non-blocking read end.
        request: the batch being run; ranges of any other are dropped. None takes all.
    """
    while True:
        try:
            token = os.read(fd, _TOKEN.size)
        except BlockingIOError:
            return
        if len(token) < _TOKEN.size:  # the parent has closed the queue
            return
        of, first, stop = _TOKEN.unpack(token)
        if request is None or of == request:
            yield first, stop

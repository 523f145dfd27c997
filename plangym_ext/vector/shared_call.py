"""A call of a vector env, shared out to the processes of its rows, waited for, put together."""

from __future__ import annotations

import itertools
import math
import select
import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from plangym_ext.vector.checkpoint import RowCall
from plangym_ext.vector.memory.shared_outs import OutLayout
from plangym_ext.vector.replay_log import ReplayLog


def row_ranges(num_rows: int, num_hosts: int) -> list[range]:
    """Return the rows of each host: as even as can be, in order, none without any."""
    num_hosts = min(num_rows, num_hosts)
    ends = [num_rows * k // num_hosts for k in range(num_hosts + 1)]
    return [range(a, b) for a, b in itertools.pairwise(ends)]


class Share:
    """The rows of a call that lie in one process.

    Attributes:
        host: number of the process.
        rows: their numbers in the vector env.
        inside: their numbers in the process: a range if they adjoin, or a list.
        places: where they stand in the call, as an index: a slice if they adjoin, or a list.
        numbers: the same one by one.
        is_all: whether they are all rows of the process.
    """

    def __init__(
        self, host: int, hosted: range, rows: Sequence[int], places: slice | list[int]
    ) -> None:
        self.host, self.rows, self.places = host, rows, places
        self.numbers: Sequence[int] = (
            range(places.start, places.stop) if isinstance(places, slice) else places
        )
        self.inside = _adjoining([row - hosted.start for row in rows])
        self.is_all = len(rows) == len(hosted)

    def of(self, values: Any) -> Any:
        """Return what belongs to these rows, fresh: it may be played again later."""
        if isinstance(values, np.ndarray):
            return values[self.places].copy()
        if isinstance(self.places, slice):
            return list(values[self.places])
        return [values[k] for k in self.places]


def shares_of_all(ranges: Sequence[range]) -> list[Share]:
    """Share out all rows of the vector env, in order."""
    return [Share(k, rows, rows, slice(rows.start, rows.stop)) for k, rows in enumerate(ranges)]


def shares_of(rows: Sequence[int], ranges: Sequence[range]) -> list[Share]:
    """Share out some rows; a process that has none of them has no share."""
    found = []
    for k, hosted in enumerate(ranges):
        places = [place for place, row in enumerate(rows) if row in hosted]
        if places:
            at = _adjoining(places)
            index = slice(at.start, at.stop) if isinstance(at, range) else at
            found.append(Share(k, hosted, [rows[place] for place in places], index))
    return found


def _adjoining(numbers: list[int]) -> range | list[int]:
    """Return numbers that follow each other as a range: arrays give views of those."""
    found = range(numbers[0], numbers[0] + len(numbers))
    return found if numbers == list(found) else numbers


class SharedCall(NamedTuple):
    """A call that was begun.

    Attributes:
        rows: numbers of its rows in the vector env.
        shares: those of each process that it concerns.
        calls: what each of these processes does.
        out: what it is written to, or None.
        ahead: whether it follows calls that were not finished when it was made.
        logs: of these processes, and after them of those whose rows are only brought back;
            none before its turn has come.
    """

    rows: Sequence[int]
    shares: list[Share]
    calls: list[RowCall]
    out: OutLayout | None
    ahead: bool
    logs: list[ReplayLog]

    def in_order(self, results: Iterable[Sequence[Any]]) -> list[Any]:
        """Return what each row returned, in the order of the call; `results`: of each share."""
        found: list[Any] = [None] * len(self.rows)
        for share, part in zip(self.shares, results, strict=True):
            for number, result in zip(share.numbers, part, strict=True):
                found[number] = result
        return found


class CallWatch:
    """One wait over all processes: their answers, their deaths and the deadline.

    Args:
        logs: of all processes, those that have begun nothing, too.
    """

    def __init__(self, logs: Sequence[ReplayLog]) -> None:
        self._logs = logs
        self._poller = select.poll()
        self._by_fd: dict[int, ReplayLog] = {}

    def finish(self, logs: Sequence[ReplayLog], timeout: float | None) -> None:
        """Wait until calls have settled.

        Args:
            logs: that have begun a call.
            timeout: seconds that a process may take for the call itself, after which it is
                stopped; None for the logs' own limits alone. What a new worker takes to
                come to where the last one was is not part of that.
        """
        for log in logs:
            log.advance()
        waiting = [log for log in logs if not log.settled]
        if not waiting:
            return
        began = time.monotonic()
        check_at = 0.0
        while waiting:
            check_at = check_at or _next_check(waiting, began, timeout)
            touched = self._wait(check_at)
            if not touched and time.monotonic() >= check_at:
                _stop_late(waiting, began, timeout)
                check_at = 0.0
            waiting = [log for log in waiting if not log.settled]
            if any(not log.settled for log in touched):
                check_at = 0.0  # it has come further, and has other limits

    def _wait(self, deadline: float) -> list[ReplayLog]:
        """Take in what comes until a deadline; return the logs that it came for."""
        if any(log.renewed for log in self._logs):
            self._watch()
        left = max(0.0, deadline - time.monotonic())
        events = self._poller.poll(None if left == math.inf else left * 1000)
        ready = {fd for fd, _ in events}
        touched = list({id(log): log for log in map(self._by_fd.__getitem__, ready)}.values())
        for log in touched:
            log.receive(ready)
        return touched

    def _watch(self) -> None:
        """Poll the processes of now: some have been replaced since the last time."""
        poller, by_fd = select.poll(), {}
        for log in self._logs:
            for fd in log.signs:
                poller.register(fd, select.POLLIN)
                by_fd[fd] = log
        self._poller, self._by_fd = poller, by_fd
        # Last: what an interrupt has left undone is done by the next wait.
        for log in self._logs:
            log.renewed = False


def _next_check(waiting: Sequence[ReplayLog], began: float, timeout: float | None) -> float:
    limits = min(log.next_check() for log in waiting)
    return min(limits, time.monotonic() + min(log.time_left(began, timeout) for log in waiting))


def _stop_late(waiting: Sequence[ReplayLog], began: float, timeout: float | None) -> None:
    for log in waiting:
        if timeout is not None and log.time_left(began, timeout) <= 0.0:
            log.stop_hung(timeout)
        elif not log.settled:
            log.check_hung()

"""A call of a vector env, shared out to the processes of its rows, waited for, put together."""

from __future__ import annotations

import functools
import itertools
import math
import select
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from plangym_ext.vector.past import Call
from plangym_ext.vector.played import Played
from plangym_ext.vector.replay_log import ReplayLog


class ChosenRows:
    """The rows of a call that one lane has.

    Attributes:
        rows: their numbers in the vector env.
        inside: their numbers in the lane.
        places: where they stand in the call, as an index: a slice, or a list.
        numbers: the same one by one.
    """

    def __init__(self, rows: Sequence[int], first: int, places: slice | list[int]) -> None:
        self.rows, self.places = rows, places
        self.numbers: Sequence[int] = (
            range(places.start, places.stop) if isinstance(places, slice) else places
        )
        self.inside: Sequence[int] = (
            range(len(rows)) if isinstance(rows, range) else [row - first for row in rows]
        )

    def of(self, values: Any) -> Any:
        """What belongs to these rows, nobody else's: it may be played again later."""
        if isinstance(values, np.ndarray):
            return values[self.places].copy()
        if isinstance(self.places, slice):
            return list(values[self.places])
        return [values[k] for k in self.places]


@functools.lru_cache(1024)
def _whole(lane: range) -> ChosenRows:
    return ChosenRows(lane, lane.start, slice(lane.start, lane.stop))


def chosen_rows(rows: Sequence[int], lane: range) -> ChosenRows:
    """The rows of a call that lie in a lane; not to be changed."""
    if isinstance(rows, range):
        return _whole(lane)  # of all rows of the vector env, in order
    places = [k for k, row in enumerate(rows) if row in lane]
    return ChosenRows([rows[k] for k in places], lane.start, places)


class SharedCall:
    """A call that some lanes have begun.

    Attributes:
        rows: numbers of its rows in the vector env.
        places: numbers of the lanes that it concerns.
        lanes, chosen: these, and the rows that each has.
        others: lanes that are only brought where they should be.
    """

    def __init__(self, rows: Sequence[int]) -> None:
        self.rows = rows
        self.places: list[int] = []
        self.lanes: list[ReplayLog] = []
        self.chosen: list[ChosenRows] = []
        self.others: list[ReplayLog] = []

    def add(self, place: int, lane: ReplayLog, chosen: ChosenRows) -> None:
        """A lane that it concerns."""
        self.places.append(place)
        self.lanes.append(lane)
        self.chosen.append(chosen)

    @property
    def calls(self) -> list[Call]:
        """What each lane was asked."""
        return [lane.call for lane in self.lanes]

    def in_order(self, results: Sequence[Sequence[Any]]) -> list[Any]:
        """What each row returns, in the order of the call."""
        found: list[Any] = [None] * len(self.rows)
        for chosen, part in zip(self.chosen, results, strict=True):
            for number, result in zip(chosen.numbers, part, strict=True):
                found[number] = result
        return found


def shares(num_rows: int, num_hosts: int) -> list[range]:
    """Rows of each host: as even as can be, in order, none without any."""
    num_hosts = min(num_rows, num_hosts)
    ends = [num_rows * k // num_hosts for k in range(num_hosts + 1)]
    return [range(a, b) for a, b in itertools.pairwise(ends)]


def merged(pending: SharedCall, results: list[Played]) -> Played:
    """What came of all rows of a call, in its order."""
    if len(results) == 1 and isinstance(pending.chosen[0].places, slice):
        return results[0]
    num = len(pending.rows)
    rewards, terminations, truncations = np.zeros(num), np.zeros(num, bool), np.zeros(num, bool)
    infos: list[tuple[int, dict[str, Any]]] = []
    finals: list[tuple[int, Any, dict[str, Any]]] = []
    for chosen, found in zip(pending.chosen, results, strict=True):
        at = chosen.places
        rewards[at], terminations[at] = found.rewards, found.terminations
        truncations[at] = found.truncations
        infos += [(chosen.numbers[k], info) for k, info in found.infos]
        finals += [(chosen.numbers[k], obs, info) for k, obs, info in found.finals]
    infos.sort(key=lambda entry: entry[0])
    finals.sort(key=lambda entry: entry[0])
    return Played(rewards, terminations, truncations, infos, finals, None, None)


class LaneWatch:
    """Waits for calls that lanes have begun.

    Args:
        lanes: all of them, those that have begun nothing, too.
    """

    def __init__(self, lanes: Sequence[ReplayLog]) -> None:
        self._lanes = lanes
        self._poller = select.poll()
        self._by_fd: dict[int, ReplayLog] = {}

    def finish(self, lanes: Sequence[ReplayLog], timeout: float | None) -> None:
        """Wait until lanes have settled.

        Args:
            lanes: that have begun a call.
            timeout: seconds that a host may take for the call itself, after which it is
                stopped; None for the lanes' own limits alone. What a new worker takes to
                come to where the last one was is not part of that.
        """
        for lane in lanes:
            lane.advance()
        waiting = [lane for lane in lanes if not lane.settled]
        if not waiting:
            return
        began = time.monotonic()
        look = 0.0
        while waiting:
            look = look or _next_look(waiting, began, timeout)
            touched = self._wait(look)
            if not touched and time.monotonic() >= look:
                _stop_late(waiting, began, timeout)
                look = 0.0
            waiting = [lane for lane in waiting if not lane.settled]
            if any(not lane.settled for lane in touched):
                look = 0.0  # it has come further, and has other limits

    def _wait(self, deadline: float) -> list[ReplayLog]:
        """Take in what comes from any host until a deadline; the lanes that it came for."""
        if any(lane.renewed for lane in self._lanes):
            self._watch()
        left = max(0.0, deadline - time.monotonic())
        events = self._poller.poll(None if left == math.inf else left * 1000)
        ready = {fd for fd, _ in events}
        touched = list({id(lane): lane for lane in map(self._by_fd.__getitem__, ready)}.values())
        for lane in touched:
            lane.look(ready)
        return touched

    def _watch(self) -> None:
        """Poll the processes of now: some have been replaced since the last time."""
        self._poller, self._by_fd = select.poll(), {}
        for lane in self._lanes:
            lane.renewed = False
            if lane.host.fallen is None:
                for fd in lane.host.signs:
                    self._poller.register(fd, select.POLLIN)
                    self._by_fd[fd] = lane


def _next_look(waiting: Sequence[ReplayLog], began: float, timeout: float | None) -> float:
    limits = min(lane.next_look() for lane in waiting)
    return min(limits, time.monotonic() + min(lane.time_left(began, timeout) for lane in waiting))


def _stop_late(waiting: Sequence[ReplayLog], began: float, timeout: float | None) -> None:
    for lane in waiting:
        if timeout is not None and lane.time_left(began, timeout) <= 0.0:
            lane.stop_hung(timeout)
        elif not lane.settled:
            lane.check_hung()

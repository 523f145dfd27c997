"""One wait over all hosts of a vector env: their answers, their deaths and the deadline."""

from __future__ import annotations

import math
import select
import time
from collections.abc import Sequence

from plangym_ext.vector.replay_log import ReplayLog


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

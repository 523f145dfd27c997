"""Workers that share out batches: what they have been told, and what they answer."""

from __future__ import annotations

import contextlib
import select
import time
import weakref
from collections.abc import Sequence
from typing import Any, Protocol

from plangym_ext.arrays.storage import SharedBlock
from plangym_ext.core.rows import RowLayout
from plangym_ext.errors import WorkerDied
from plangym_ext.workers.channel import wait_awake, wait_readable
from plangym_ext.workers.external_process import START_TIMEOUT, ExternalProcess
from plangym_ext.workers.lane import Lane, numbers
from plangym_ext.workers.pace import Pace
from plangym_ext.workers.pages import Pages
from plangym_ext.workers.process import WorkerProcess
from plangym_ext.workers.rows_message import NO_ROW, RowsMessage, lines_bytes

#: Times that a worker may be started for one batch, on average.
_MAX_STARTS = 3
#: Sizes of batches that are remembered.
_MAX_KEPT = 256
#: Kinds of batches that workers know at a time.
_MAX_PLANS = 256


class Batch(Protocol):
    """What a crew has to know of a batch in flight."""

    @property
    def abandoned(self) -> bool:
        """Whether nobody will ask for its results."""

    def wait(self, timeout: float | None) -> Any:
        """Bring it to its end."""

    def reap(self) -> None:
        """Release it, if its workers are through with it."""

    def cancel(self, error: Exception) -> None:
        """End it with an error; all workers are gone."""

    def progress_of(self, worker: int) -> int:
        """The row that a worker, by its place in the crew, is running, or `NO_ROW`."""

    def stop_hung(self, hung: list[ExternalProcess], seconds: float | None) -> None:
        """End it with an error that names workers which hang, and replace those."""


class Plan:
    """A kind of batch that workers know by a number.

    Attributes:
        number: which.
        message: what they are told.
        forgotten: whether they know it no more.
    """

    def __init__(self, message: RowsMessage) -> None:
        self.number = next(numbers)
        self.message = message
        self.forgotten = False


class WorkerPool:
    """Equal workers, their shared memory, and the one place that waits for them.

    Args:
        workers: with equal envs, all built.
    """

    def __init__(self, workers: list[ExternalProcess]) -> None:
        self.workers = workers
        self.pages = Pages()
        #: Batches that have begun and not landed.
        self.flights: set[Batch] = set()
        self.pace = Pace()
        self._sizes: dict[tuple[int, int, int], int] = {}
        self._plans: dict[RowsMessage, Plan] = {}
        #: The processes of all workers, when all were ready, and lanes and plans, by number,
        #: that all of those know.
        self._roster: list[WorkerProcess] = []
        self._known: set[tuple[int, int]] = set()
        self._free_lanes: list[Lane] = []
        self._lanes: list[Lane] = []
        self._numbers: weakref.WeakKeyDictionary[SharedBlock, int] = weakref.WeakKeyDictionary()
        #: Numbers of blocks that are gone; workers are told before their next batch.
        self._gone: list[int] = []
        self._poller = select.poll()
        self._watched: dict[int, ExternalProcess] = {}
        self._reporting: dict[int, Lane] = {}
        self._watched_processes: list[object] = []

    # Batches --------------------------------------------------------------------

    def settle(self) -> None:
        """Bring every batch in flight to its end; each keeps its outcome."""
        for flight in list(self.flights):
            # Whoever waits for it is the one to hear what went wrong.
            with contextlib.suppress(Exception):
                flight.wait(None)

    def reap(self) -> None:
        """Release batches that nobody will ask for, as far as they are done."""
        abandoned = [flight for flight in self.flights if flight.abandoned]
        if abandoned:
            self.pump(0.0)
            for flight in abandoned:
                flight.reap()

    def end_abandoned(self) -> None:
        """Wait for batches that nobody will ask for, and release them."""
        self.reap()
        for flight in [flight for flight in self.flights if flight.abandoned]:
            with contextlib.suppress(Exception):
                flight.wait(None)

    def batch_at(self, worker: ExternalProcess) -> Batch | None:
        """The batch of which a worker is running a row, if it is."""
        index = self.workers.index(worker)
        for flight in self.flights:
            if flight.progress_of(index) != NO_ROW:
                return flight
        return None

    def progress_of(self, worker: ExternalProcess) -> tuple[int, ...]:
        """What a worker is at, in all batches: as long as this changes, it lives."""
        index = self.workers.index(worker)
        return tuple(flight.progress_of(index) for flight in self.flights)

    def page_size(self, layout: RowLayout, num_rows: int, horizon: int) -> int:
        """Bytes of a page for B rows of H actions."""
        key = (num_rows, horizon, layout.state_width)
        size = self._sizes.get(key)
        if size is None:
            if len(self._sizes) >= _MAX_KEPT:
                self._sizes.clear()
            _, size = layout.offsets(num_rows, horizon)
            size = self._sizes[key] = size + lines_bytes(len(self.workers))
        return size

    # What workers know ----------------------------------------------------------

    def number(self, block: SharedBlock) -> int:
        """The number that workers know a block by."""
        known = self._numbers.get(block)
        if known is None:
            known = self._numbers[block] = next(numbers)
            weakref.finalize(block, self._gone.append, known)
        return known

    def take_lane(self) -> Lane:
        """A lane that no batch uses."""
        if self._free_lanes:
            return self._free_lanes.pop()
        lane = Lane()
        self._lanes.append(lane)
        self._reporting[lane.queue.report_fd] = lane
        self._poller.register(lane.queue.report_fd, select.POLLIN)
        return lane

    def give_back(self, lane: Lane) -> None:
        """Let another batch use a lane; nobody runs rows of the last one any more."""
        self._free_lanes.append(lane)

    def plan(self, message: RowsMessage) -> Plan:
        """The kind of batch that a message describes."""
        plan = self._plans.get(message)
        if plan is None:
            if len(self._plans) >= _MAX_PLANS:
                oldest = self._plans.pop(next(iter(self._plans)))
                oldest.forgotten = True
                self._forget("plan", oldest.number)
            plan = self._plans[message] = Plan(message)
        return plan

    def introduce(
        self,
        workers: list[ExternalProcess],
        lane: Lane,
        blocks: Sequence[SharedBlock],
        plan: Plan,
    ) -> bool:
        """Tell workers of the lane, the memory and the kind of a batch, unless they know them.

        Args:
            workers: who, from `ready_workers`; those that are gone are left out.
            lane: that the batch has.
            blocks: in which its arrays lie.
            plan: its kind.

        Returns:
            Whether there was something to tell.
        """
        while self._gone:
            self._forget("block", self._gone.pop())
        key = (lane.number, plan.number)
        if workers is self.workers and key in self._known:
            return False
        told = False
        for worker in workers:
            with contextlib.suppress(WorkerDied):  # seen again when it is waited for
                told = self._tell(worker, lane, blocks, plan) or told
        if workers is self.workers:
            self._known.add(key)
        return told

    def _tell(
        self, worker: ExternalProcess, lane: Lane, blocks: Sequence[SharedBlock], plan: Plan
    ) -> bool:
        """Tell one worker what it does not know, and what is gone; whether there was anything."""
        worker.describe()
        process = worker.process
        news = [("lane", lane.number), *(("block", self.number(block)) for block in blocks)]
        news.append(("plan", plan.number))
        news = [one for one in news if one not in process.told]
        if not (news or process.gone):
            return False
        while process.gone:
            worker.post(("forget", *process.gone.pop()))
        by_number = {self.number(block): block for block in blocks}
        for kind, number in news:
            if kind == "lane":
                index = self.workers.index(worker)
                worker.post((kind, number, index), lane.queue.worker_fds)
            elif kind == "block":
                block = by_number[number]
                worker.post((kind, number, block.nbytes), (block.fd,))
            else:
                worker.post((kind, number, plan.message))
            process.told.add((kind, number))
        return True

    def _forget(self, kind: str, number: int) -> None:
        """Note for every worker that knows something that it has to forget it."""
        self._known.clear()
        for worker in self.workers:
            if (kind, number) in worker.process.told:
                worker.process.told.remove((kind, number))
                worker.process.gone.append((kind, number))

    # What workers say -----------------------------------------------------------

    def pump(self, timeout: float | None, awake: float = 0.0) -> bool:
        """Take in reports and answers, and notice deaths, of any worker.

        Args:
            timeout: seconds to wait for the first of them; None waits as long as it takes.
            awake: seconds before those that are spent without going to sleep.

        Returns:
            Whether anything came.
        """
        self._watch()
        events = wait_awake(self._poller, awake) if awake else []
        if not events:
            events = self._poller.poll(None if timeout is None else timeout * 1000)
        for fd, _ in events:
            if (lane := self._reporting.get(fd)) is not None:
                lane.collect()
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
        processes = [worker.process for worker in self.workers if worker.process.fallen is None]
        if processes == self._watched_processes:
            return
        self._poller = select.poll()
        for fd in self._reporting:
            self._poller.register(fd, select.POLLIN)
        self._watched.clear()
        for worker in self.workers:
            if worker.fallen is None:
                for fd in worker.process.signs:
                    self._poller.register(fd, select.POLLIN)
                    self._watched[fd] = worker
        self._watched_processes = list(processes)

    def ready_workers(self) -> list[ExternalProcess]:
        """Workers whose env is built, at least one, which is waited for.

        Those that are gone are replaced.

        Raises:
            WorkerDied: they die while they build their envs, again and again.
            WorkerTimeout: none has built its env in time.
        """
        present = [worker.process for worker in self.workers if worker.process.fallen is None]
        complete = len(present) == len(self.workers)
        if complete and present == self._roster:
            return self.workers
        self._known.clear()
        self._roster = []
        if complete and all(worker.ready for worker in self.workers):
            self._roster = present
            return self.workers
        deadline = time.monotonic() + START_TIMEOUT
        starts_left = _MAX_STARTS * len(self.workers)
        while True:
            for worker in self.workers:
                if worker.fallen is not None:
                    if not starts_left:
                        raise worker.fallen
                    starts_left -= 1
                    worker.restart()
            ready = [worker for worker in self.workers if worker.ready]
            if len(ready) == len(self.workers):
                return ready
            # All of them are watched: it does not matter which is the first.
            self.pump(0.0 if ready else max(0.0, deadline - time.monotonic()))
            ready = [worker for worker in self.workers if worker.ready]
            if ready:
                return ready
            if time.monotonic() >= deadline:
                raise self.workers[0].hung(START_TIMEOUT)

    def close(self, error: Exception) -> None:
        """Let go of memory and queues, when all workers are closed.

        Args:
            error: what whoever waits for a batch in flight gets.
        """
        for flight in list(self.flights):
            flight.cancel(error)
        self._watched.clear()
        self._reporting.clear()
        for lane in self._lanes:
            lane.queue.close()
        self._lanes.clear()
        self._free_lanes.clear()
        self.pages.close()


class StillWatch:
    """Tells for how long something has stayed the same.

    Args:
        limit: seconds after which it counts as stuck; None for never.
    """

    def __init__(self, limit: float | None) -> None:
        self._limit = limit
        self._seen: dict[object, tuple[object, float]] = {}

    def stuck(self, key: object, sign: object) -> bool:
        """Whether `sign` of `key` has not changed for the limit; looked at now and then."""
        now = time.monotonic()
        before, since = self._seen.get(key, (None, now))
        if before != sign:
            self._seen[key] = (sign, now)
            return False
        return self._limit is not None and now - since >= self._limit

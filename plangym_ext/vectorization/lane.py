"""One batch in flight between a parent and its workers.

parent                              workers
load rows into the block
offer row ranges   --- pipe --->    claim a range, run it in place, claim the next
ring each worker   --- socket -->
wait for all       <-- socket ---   "no ranges left"
read the results from the block
"""

from __future__ import annotations

import itertools
import select
import weakref
from typing import Any

import numpy as np

from plangym_ext.arrays.storage import SharedBlock
from plangym_ext.core.part import StateTooWide
from plangym_ext.core.row_request import RowRequest
from plangym_ext.core.rows import RowBatch, RowLayout, RowResults
from plangym_ext.errors import WorkerDied
from plangym_ext.vectorization.channel import wait_readable
from plangym_ext.vectorization.claims import MAX_RANGES, ClaimQueue, split_rows
from plangym_ext.vectorization.external_process import ExternalProcess, next_request

_lanes = itertools.count()

#: Times that one batch may lose workers and be run on before it is given up.
_MAX_RECOVERIES = 1


class Lane:
    """Shared memory and a claim queue that serve one batch at a time.

    Args:
        workers: ready workers with equal envs.
        layout: their row layout.
    """

    def __init__(self, workers: list[ExternalProcess], layout: RowLayout) -> None:
        self._id = next(_lanes)
        self._workers = workers
        self._layout = layout
        self._queue = ClaimQueue()
        self._block: SharedBlock | None = None
        self._batches: dict[tuple[int, int], RowBatch] = {}
        #: Processes that have mapped the current block.
        self._joined: weakref.WeakSet[Any] = weakref.WeakSet()

    def run(self, request: RowRequest, *, one_by_one: bool = False) -> RowResults:
        """Run one batch and wait for it."""
        num_rows, horizon = request.num_rows, request.horizon
        batch = self._batch(num_rows, horizon)
        batch.load(request)
        workers = self._workers[:1] if one_by_one else self._workers
        ranges = split_rows(num_rows, len(workers))
        recoveries = 0
        while deaths := self._run_ranges(workers, batch, ranges):
            for worker, _ in deaths:
                worker.restart()
            if recoveries == _MAX_RECOVERIES:
                raise deaths[0][1]
            recoveries += 1
            ranges = _ranges_left(batch)
        return batch.results(copy=True)

    def _run_ranges(
        self, workers: list[ExternalProcess], batch: RowBatch, ranges: list[tuple[int, int]]
    ) -> list[tuple[ExternalProcess, WorkerDied]]:
        """Have workers run ranges; returns those that died meanwhile."""
        request = next_request()
        deaths: list[tuple[ExternalProcess, WorkerDied]] = []
        rung: list[ExternalProcess] = []
        try:
            self._queue.discard()
            self._queue.offer(request, ranges)
            for worker in workers[: len(ranges)]:
                try:
                    self._join(worker)
                    rung.append(worker)
                    worker.post(("rows", request, self._id, batch.num_rows, batch.horizon))
                except WorkerDied as death:
                    rung = [other for other in rung if other is not worker]
                    deaths.append((worker, death))
            answers = wait_all(rung, request)
        except BaseException:
            # Interrupted: whoever has not answered would go on writing into the block.
            self._queue.discard()
            for worker in rung:
                if worker.taken(request) is None:
                    worker.restart()
            raise
        errors: list[tuple[Any, str]] = []
        excess = 0
        for worker, answer in answers:
            if isinstance(answer, WorkerDied):
                deaths.append((worker, answer))
            elif answer[0] == "too wide":
                excess = max(excess, answer[1])
            elif answer[0] == "error":
                errors.append((answer[1], worker.where))
            else:
                batch.own_infos.update(answer[1])
        if errors or excess:
            for worker, _ in deaths:
                worker.restart()
            self._queue.discard()
        if errors:
            # The lowest row speaks for all, so the message does not depend on timing alone.
            report, where = min(errors, key=lambda e: e[0].row if e[0].row is not None else -1)
            raise report.rebuild(where)
        if excess:
            raise StateTooWide(excess)
        return deaths

    def _batch(self, num_rows: int, horizon: int) -> RowBatch:
        """Views of the block for B rows of H actions; a larger block if they do not fit."""
        _, size = self._layout.offsets(num_rows, horizon)
        if self._block is None or self._block.nbytes < size:
            self._batches.clear()
            if self._block is not None:
                self._block.close()
            # Half as much again, so that slowly growing batches do not remap each time.
            self._block = SharedBlock.create(size + size // 2)
            self._joined.clear()
        batch = self._batches.get((num_rows, horizon))
        if batch is None:
            memory = self._block.ndarray((self._block.nbytes,), np.uint8)
            batch = RowBatch(self._layout, num_rows, horizon, memory)
            if len(self._batches) > 64:
                self._batches.clear()
            self._batches[num_rows, horizon] = batch
        return batch

    def _join(self, worker: ExternalProcess) -> None:
        """Have a worker map the current block, unless it has."""
        if worker.process not in self._joined:
            worker.describe()
            assert self._block is not None
            fds = (self._queue.read_fd, self._block.fd)
            worker.post(("lane", self._id, self._block.nbytes), fds)
            self._joined.add(worker.process)

    def close(self) -> None:
        """Release memory and queue; further calls do nothing."""
        self._queue.close()
        self._batches.clear()
        if self._block is not None:
            self._block.close()


def _ranges_left(batch: RowBatch) -> list[tuple[int, int]]:
    """Ranges of the rows that have to be run again from the caller's states.

    Single rows, so that one that kills its worker takes no other along; longer ranges
    if there are more rows than the queue can hold.
    """
    left = ~batch.done
    left[list(batch.own_infos)] = False  # the answers with these infos have come
    rows = np.flatnonzero(left)
    size = max(1, -(-len(rows) // MAX_RANGES))
    # Rows that lie between are done, and running them again gives the same.
    return [
        (int(rows[k]), int(rows[min(k + size, len(rows)) - 1]) + 1)
        for k in range(0, len(rows), size)
    ]


def wait_all(
    workers: list[ExternalProcess], request: int
) -> list[tuple[ExternalProcess, tuple[str, Any] | WorkerDied]]:
    """Wait until each worker has answered a request or died, in whatever order.

    If it is interrupted, the answers that have come can still be `taken`.
    """
    poller = select.poll()
    waiting: dict[int, ExternalProcess] = {}
    for worker in workers:
        for fd in (worker.process.channel.fileno(), worker.process.pidfd):
            if fd >= 0:
                poller.register(fd, select.POLLIN)
                waiting[fd] = worker
    deaths: dict[ExternalProcess, WorkerDied] = {}
    open_count = len(workers)
    while open_count:
        for fd, _ in poller.poll():
            worker = waiting.get(fd)  # type: ignore[assignment]
            if worker is None:
                continue
            death = _receive(worker, gone=fd == worker.process.pidfd)
            if death is not None:
                deaths[worker] = death
            elif not worker.has_answer(request):
                continue
            open_count -= 1
            for of in (worker.process.channel.fileno(), worker.process.pidfd):
                if waiting.pop(of, None) is not None:
                    poller.unregister(of)
    found: list[tuple[ExternalProcess, tuple[str, Any] | WorkerDied]] = []
    for worker in workers:
        answer = worker.taken(request)
        found.append((worker, deaths[worker] if answer is None else answer))
    return found


def _receive(worker: ExternalProcess, *, gone: bool) -> WorkerDied | None:
    """Take one answer off a worker's channel; says so if the worker has died instead."""
    if gone and not wait_readable([worker.process.channel.fileno()], 0):
        # A process that the env started may still hold the socket open.
        return worker.death()
    try:
        worker.receive()
    except WorkerDied as death:
        return death
    return None

"""ProcessRows: the rows of one batch on worker processes, round by round.

parent                              workers
offer row ranges   --- pipe --->    claim a range, run it in place, claim the next
wait for all rows  <--- pipe ---    "I have run n rows"

A worker that has claimed nothing has nothing to report. Each is asked to finish only after an error
or a long time: once all have replied or died, none runs rows of the round.
"""

from __future__ import annotations

import contextlib
import pickle
import time
from typing import Protocol

import numpy as np

from plangym_ext.core.row_request import RowRequest
from plangym_ext.errors import EnvClosed, WorkerDied, WorkerTimeout
from plangym_ext.workers.batch_layout import NO_ROW, ROW, Death, Round
from plangym_ext.workers.batch_run import BatchOwner
from plangym_ext.workers.channel import ChannelDamaged
from plangym_ext.workers.limits import LOOK, row_limit
from plangym_ext.workers.processes.process import WorkerProcess
from plangym_ext.workers.protocol import Failure, Finish, Reply, TooWide, Value
from plangym_ext.workers.remote_errors import ErrorReport
from plangym_ext.workers.row_queue import Ranges
from plangym_ext.workers.scheduling import ranges_of
from plangym_ext.workers.shared_batch import Pages, SharedBatch
from plangym_ext.workers.worker_handle import WorkerHandle, requests
from plangym_ext.workers.worker_pool import WorkerPool


class ProcessOwner(BatchOwner, Protocol):
    """Protocol of the handle whose worker processes run rows.

    Attributes:
        pool: of the workers.
        pages: memory for their batches.
        blocking: give all rows to one worker instead of sharing them.
    """

    pool: WorkerPool
    pages: Pages
    blocking: bool


class ProcessRows(SharedBatch):
    """The rows of one request in shared memory, and the processes that may run them."""

    def __init__(self, owner: ProcessOwner, request: RowRequest) -> None:
        self._owner, self._pool, self._pages = owner, owner.pool, owner.pages
        self.request, self._rows = request, owner.layout
        self.state_width = self._rows.state_width
        free = self._pool.free_queues
        self._queue = free.pop() if free else self._pool.new_queue()
        #: The workers, each with the process that it had: it may be replaced before the round
        #: is over.
        self._asked: dict[WorkerHandle, WorkerProcess] = {}
        #: Number of the request to finish the round, if that was made.
        self._finish: int | None = None
        self._num_left = request.num_rows
        #: What each process was at, and since when.
        self._seen: dict[WorkerProcess, tuple[object, float]] = {}

    # Rounds ---------------------------------------------------------------------

    def begin(self) -> None:
        self.load()
        pool, request = self._pool, self.request
        sharers = 1 if self._owner.blocking else len(pool.workers)
        schedule = pool.scheduler.schedule(request.num_rows, request.horizon, sharers)
        self._usual, self._spin = int(1e9 * schedule.row_seconds), schedule.spin
        self._offer(schedule.ranges)

    def offer_again(self, left: np.ndarray, deaths: list[Death]) -> None:  # noqa: ARG002
        """See `Rows`: one by one, so that a row that kills its worker takes no other along."""
        self._num_left = len(left)
        self._offer(ranges_of(left))

    def _offer(self, ranges: Ranges) -> None:
        """Offer ranges to the workers; none is running any."""
        pool, queue = self._pool, self._queue
        self._asked, self._finish, self._told = {}, None, False
        self._round = next(requests)
        able: list[WorkerHandle] = []
        if ranges:
            # An env that cannot be built any more raises here, before any row is run.
            able = pool.ready_workers()
            able = pool.workers[:1] if self._owner.blocking else able
            known = queue.number in pool.told and self.layout.number in pool.told
            if pool.gone or not known or able is not pool.workers:
                # Whether they were told something; then all are heard in the end.
                self._told = pool.send_layout(able, queue, self.blocks, self.layout)
            # Before the offer: a death is blamed on the row in its line, which an older batch may
            # have left there.
            self.lines[:, ROW] = NO_ROW
            for worker in able:
                self._asked[worker] = worker.process
                worker.last_command = "rows"
        queue.offer(self._round, self.layout.number, ranges, self._usual, len(able))

    def waiting(self) -> list[WorkerHandle]:
        finish = self._finish
        if not self._queue.rows_left and finish is None:
            return []
        return [
            worker
            for worker, process in self._asked.items()
            if process.fallen is None and not (finish is not None and worker.has_answer(finish))
        ]

    def listen(self, timeout: float) -> bool:
        queue, limit = self._queue, self._owner.row_timeout
        # Half of the limit: a worker that hangs is found at most half a limit late.
        timeout = min(timeout, LOOK if limit is None else min(LOOK, limit / 2))
        came = self._pool.pump(max(timeout, 0.0), self._spin if timeout > 0 else 0.0)
        for worker, process in self._asked.items():
            # At once, so that the new one is ready when this round is over.
            if process.fallen is not None and worker.process is process:
                worker.restart()
                self.ask_to_finish()
        done = not queue.rows_left
        alone = len(queue.heard) >= queue.sharers and len(self._pool.runs) == 1 and not self._told
        if queue.failed or (done and not alone and self._wants_all()):
            self.ask_to_finish()
        return came

    def _wants_all(self) -> bool:
        """Return whether all workers are to be heard, though the rows are done without some.

        So that earlier messages are handled, such as to unmap memory, and abandoned batches do not
        pile up; and for a stopped worker whose rows others run.
        """
        runs = self._pool.runs
        if self._told or any(run.abandoned for run in runs if run.rows is not self):
            return True
        if len(self._queue.heard) >= self._queue.sharers:
            return False
        heard = {self._pool.workers[one.worker] for one in self._queue.heard}
        return any(worker.process.stopped for worker in set(self._asked) - heard)

    def ask_to_finish(self) -> None:
        """Ask every worker for a reply after its last claimed row; once a round."""
        if self._finish is None:
            self._finish = next(requests)
            for worker, process in self._asked.items():
                if worker.process is process:
                    with contextlib.suppress(WorkerDied, EnvClosed):
                        worker.post(Finish(self._finish, self._queue.number), command="rows")

    def end_round(self) -> Round | None:
        queue, pool = self._queue, self._pool
        if queue.rows_left or queue.speakers or self._finish is not None:
            if (unusual := self._heard()) is not None:
                return unusual
        else:
            self._asked = {}
        if self._num_left:
            steps = self._num_left * self.request.horizon
            pool.scheduler.note(queue.heard, steps, time.monotonic_ns())
        pool.has_run = True
        for _, since in self._seen.values():
            pool.slowest = max(pool.slowest, time.monotonic() - since)
        return None

    def _heard(self) -> Round | None:
        """Return what the workers say of a round; None if all rows are done."""
        queue = self._queue
        deaths: list[Death] = []
        failures: list[tuple[int, ErrorReport, str]] = []
        excess = 0
        asked, self._asked = self._asked, {}
        for worker, process, reply, lost in self._replies(asked):
            # Rows that it has reported are not done without their own results on the channel.
            if process.fallen is not None and (queue.rows_left or lost):
                row = self.row_of(worker)
                is_open = row != NO_ROW and not self.batch.done[row]
                deaths.append(Death((row, row + 1) if is_open else (0, 0), process.fallen))
            if isinstance(reply, TooWide):
                excess = max(excess, reply.excess)
            elif isinstance(reply, Failure):
                row = -1 if reply.report.row is None else reply.report.row
                failures.append((row, reply.report, worker.where))
            elif isinstance(reply, Value):
                self.batch.take_own(*pickle.loads(reply.data))
        if not (deaths or failures or excess or queue.rows_left):
            return None
        queue.discard()  # if all of them died, there are ranges that none has claimed
        left = ~self.batch.done
        # The replies with what these rows have of their own have come.
        left[[*self.batch.own_infos, *self.batch.own_objects]] = False
        return Round(deaths, failures, excess, np.flatnonzero(left))

    def _replies(
        self, asked: dict[WorkerHandle, WorkerProcess]
    ) -> list[tuple[WorkerHandle, WorkerProcess, Reply | None, bool]]:
        """Return every worker with its process and reply, and whether that was lost on the way."""
        queue = self._queue
        speakers = [self._pool.workers[index] for index in queue.speakers]
        found = []
        for worker, process in asked.items():
            # Its messages were sent before the report: they are in the channel.
            while worker in speakers and process.fallen is None:
                if worker.has_answer(self._round):
                    break
                if process.channel.has_come():
                    worker.receive()
                else:  # it has reported what it never sent
                    worker.damaged(ChannelDamaged("an answer that was announced is missing"))
            if self._finish is not None and process.fallen is None:
                worker.forget(self._finish)
            reply = worker.taken(self._round)
            found.append((worker, process, reply, reply is None and worker in speakers))
        return found

    # Hangs ----------------------------------------------------------------------

    def hung(self) -> tuple[list[WorkerHandle], float | None]:
        pool, request = self._pool, self.request
        # The limit of first rows holds until the first batch has ended.
        steps = int(request.horizon) * int(np.max(request.dt, initial=1))
        limit = row_limit(
            self._owner.row_timeout, first=not pool.has_run, slowest=pool.slowest, steps=steps
        )
        # One that has nothing to run answers at once, and is not held to hang.
        self.ask_to_finish()
        if limit is None:
            return [], limit
        return [worker for worker in self.waiting() if self._still(worker) >= limit], limit

    def _still(self, worker: WorkerHandle) -> float:
        """Return the seconds since a worker's last progress, in any batch."""
        process, now = self._asked[worker], time.monotonic()
        sign = tuple(run.rows.row_of(worker) for run in self._pool.runs)
        before, since = self._seen.get(process, (None, now))
        if before != sign:
            self._seen[process] = sign, now
            # Checked a few times a second: shorter times do not matter.
            self._pool.slowest = max(self._pool.slowest, now - since)
            return 0.0
        return now - since

    def stopped(self, hung: list[WorkerHandle], seconds: float | None) -> WorkerTimeout:
        """Stop and replace workers that hang, and return the error that names them.

        The others go on with the rows that they have begun, whose results are not used.
        """
        found = []
        for worker in hung:
            row = self.row_of(worker)
            doing = "" if row == NO_ROW else f" at row {row}, action {self.action(row)},"
            found.append(str(worker.hung(seconds, doing)))
            worker.restart()
        return WorkerTimeout("\n".join(found), workers=tuple(worker.index for worker in hung))

    def row_of(self, worker: WorkerHandle) -> int:
        return int(self.lines[self._pool.workers.index(worker), ROW])

    # The end --------------------------------------------------------------------

    def discard(self) -> None:
        self._queue.discard()

    def abort(self) -> None:
        with contextlib.suppress(EnvClosed):
            for worker in self.waiting():
                worker.restart()

    def cancel(self) -> None:
        self._asked = {}

    def release(self) -> None:
        asked, self._asked = self._asked, {}
        if asked:
            self._replies(asked)
        if self._page is not None:
            self._page.busy = False
        self.blocks = ()
        if self._pinned and self.request.slots is not None:
            self._pinned = False
            self.request.slots.store.pins -= 1
        self._pool.free_queues.append(self._queue)

"""Recovery: reruns of a batch's rows after worker deaths, hangs, errors or wider states.

A worker that dies is replaced at once, and the rows that are not done are run again, one by
one, from the caller's states. A row that kills workers, or one that does not end, is named.
"""

from __future__ import annotations

import dataclasses
import pickle
import time
from typing import Protocol

import numpy as np

from plangym_ext.core.row_request import RowRequest
from plangym_ext.errors import PoisonState, WorkerDied, WorkerTimeout
from plangym_ext.states.part import StateTooWide
from plangym_ext.workers.batch_layout import NO_ROW
from plangym_ext.workers.close_errors import row_limit
from plangym_ext.workers.processes.process import WorkerProcess
from plangym_ext.workers.protocol import Failure, TooWide, Value
from plangym_ext.workers.round import LOST, Round
from plangym_ext.workers.row_queue import Ranges, RowQueue
from plangym_ext.workers.scheduling import ranges_of
from plangym_ext.workers.shared_batch import SharedBatch
from plangym_ext.workers.worker_handle import WorkerHandle
from plangym_ext.workers.worker_pool import BatchOwner, Run, WorkerPool

#: Workers that one row may kill before it is held to be the cause.
MAX_KILLS = 2
#: Rounds in a row that may lose workers without any row being done or blamed for it.
_MAX_IDLE_ROUNDS = 3

Deaths = dict[WorkerHandle, WorkerDied]


class RecoverableRun(Run, Protocol):
    """Protocol of a batch under recovery; attributes as of `BatchRun`."""

    owner: BatchOwner
    pool: WorkerPool
    request: RowRequest
    memory: SharedBatch
    queue: RowQueue
    round: Round
    state_width: int
    abandoned: bool

    def quiesce(self) -> None:
        """Wait until no worker runs rows, and release the batch's resources."""

    def start(self) -> None:
        """Run the request from its beginning."""


class Recovery:
    """Faults of one batch, and the reaction to them.

    It is given the run by every call: the two in a cycle would keep the batch's memory until
    the garbage collector comes by.

    Args:
        num_rows: B.

    Attributes:
        num_left: rows that are not done, as far as deaths have had them counted.
    """

    def __init__(self, num_rows: int) -> None:
        self.num_left = num_rows
        self._kills: dict[int, int] = {}
        self._idle_rounds = 0
        #: What each process was at, and since when.
        self._seen: dict[WorkerProcess, tuple[object, float]] = {}

    # Errors ---------------------------------------------------------------------

    def hear_replies(self, run: RecoverableRun) -> Deaths:
        """Read the workers' replies; return the workers that died instead.

        Raises:
            StateTooWide, Exception: what they say.
        """
        deaths: Deaths = {}
        failures: list[tuple[int, Failure, str]] = []
        excess = 0
        for worker, process, reply in run.round.end(run.pool.workers):
            # Rows that it has reported are not done without what it had to say of them.
            if process.fallen is not None and (run.queue.rows_left or reply is LOST):
                deaths[worker] = process.fallen
            if isinstance(reply, TooWide):
                excess = max(excess, reply.excess)
            elif isinstance(reply, Failure):
                row = reply.report.row
                failures.append((-1 if row is None else row, reply, worker.where))
            elif isinstance(reply, Value):
                run.memory.batch.take_own(*pickle.loads(reply.data))
        if failures or excess:
            run.queue.discard()
        if failures:
            # The lowest row speaks for all, so the message does not depend on timing alone.
            _, failure, where = min(failures, key=lambda found: found[0])
            raise failure.report.rebuild(where)
        if excess:
            raise StateTooWide(excess)
        return deaths

    def run_wider(self, run: RecoverableRun, outcome: BaseException) -> None:
        """Restart the batch with wider rows if its states have outgrown them; else raise."""
        owner = run.owner
        request = run.request
        if not isinstance(outcome, StateTooWide):
            if request.unchecked and isinstance(outcome, Exception):
                # A refusal names the first of all rows, and goes before other errors.
                owner.envelope.check(request.states, request.unchecked)
            raise outcome
        run.quiesce()
        # Another batch may have made them wider since this one began.
        short = run.state_width + outcome.excess - owner.layout.state_width
        if short > 0:
            owner.widen(owner.wider(short))
        if request.slots is not None:
            request.slots.store.widen(owner.layout.state_width)
            run.request = dataclasses.replace(request, states=request.slots.store.rows)
        run.start()
        run.abandoned = False

    # Deaths ---------------------------------------------------------------------

    def look(self, run: RecoverableRun, *, came: bool) -> None:
        """Replace dead or hung workers; request completion of the round if necessary.

        Args:
            run: the batch.
            came: whether anything has come from a worker since the last look.
        """
        for worker, process in run.round.asked.items():
            # At once, so that the new one is ready when this round is over.
            if process.fallen is not None and worker.process is process:
                worker.restart()
                run.round.ask_to_finish()
        if run.queue.failed or self._wants_all(run):
            run.round.ask_to_finish()
        if not came:
            self._look_for_hung(run)

    def _wants_all(self, run: RecoverableRun) -> bool:
        """Return whether all workers are to be heard, though the rows are done without some.

        So that what they were told has been done, such as to let go of memory, and batches that
        were abandoned do not pile up; and for a worker that is stopped while others run what it
        would have.
        """
        queue, pool = run.queue, run.pool
        if queue.rows_left:
            return False
        if run.round.told:
            return True
        if len(pool.runs) > 1 and any(one.abandoned for one in pool.runs if one is not run):
            return True
        if len(queue.heard) >= queue.sharers:
            return False
        silent = set(run.round.asked) - {pool.workers[one.worker] for one in queue.heard}
        return any(worker.process.stopped for worker in silent)

    def ranges_left(self, run: RecoverableRun, deaths: Deaths) -> Ranges:
        """Return the rows to run again from the caller's states.

        Args:
            run: the batch.
            deaths: of the round that is over.

        Raises:
            PoisonState: a row was being run when two workers died.
            WorkerDied: workers die, again and again, and no row gets done.
        """
        run.queue.discard()  # if all of them died, there are ranges that none has claimed
        batch = run.memory.batch
        left = ~batch.done
        # The replies with what these rows have of their own have come.
        left[[*batch.own_infos, *batch.own_objects]] = False
        rows: np.ndarray = np.flatnonzero(left)
        self._blame(run, deaths, len(rows))
        return ranges_of(rows)

    def _blame(self, run: RecoverableRun, deaths: Deaths, num_left: int) -> None:
        """Note the deaths of a round, after which some rows are not done."""
        idle, self.num_left = num_left == self.num_left, num_left
        for worker, death in deaths.items():
            row = self._row_of(run, worker)
            if row == NO_ROW or run.memory.batch.done[row]:
                continue
            idle = False
            self._kills[row] = self._kills.get(row, 0) + 1
            if self._kills[row] >= MAX_KILLS:
                raise self._poison(run, row, death)
        self._idle_rounds = self._idle_rounds + 1 if idle else 0
        if deaths and self._idle_rounds >= _MAX_IDLE_ROUNDS:
            raise list(deaths.values())[-1]

    def _poison(self, run: RecoverableRun, row: int, death: WorkerDied) -> PoisonState:
        memory = run.memory
        action = memory.action(row)
        return PoisonState(
            f"states[{row}] with action {action} has killed {MAX_KILLS} "
            f"workers; the last: {death} Run the other rows without this one.",
            row=row,
            state=memory.state(row),
            action=action,
            worker=death.worker,
            pid=death.pid,
            exit_status=death.exit_status,
            last_command=death.last_command,
        )

    def _row_of(self, run: RecoverableRun, worker: WorkerHandle) -> int:
        return run.progress_of(run.pool.workers.index(worker))

    # Hangs ----------------------------------------------------------------------

    def _look_for_hung(self, run: RecoverableRun) -> None:
        """Stop workers without progress for too long."""
        limit = self.limit(run)
        # One that has nothing to run answers at once, and is not held to hang.
        run.round.ask_to_finish()
        for worker in run.round.waiting():
            if limit is not None and self._still(run, worker, run.round.asked[worker]) >= limit:
                # It may be another batch that it does not get on with.
                (run.pool.batch_at(worker) or run).stop_hung([worker], limit)

    def limit(self, run: RecoverableRun) -> float | None:
        """Return for how many seconds a worker may be at the same row."""
        pool = run.pool
        # What a row takes does not end before the batch does that it is the first of.
        steps = int(run.request.horizon) * int(np.max(run.request.dt, initial=1))
        return row_limit(
            run.owner.row_timeout, first=not pool.has_run, slowest=pool.slowest, steps=steps
        )

    def note_end(self, pool: WorkerPool) -> None:
        """Record the times of the last checked rows, now that all are done."""
        if self._seen:
            began = min(since for _, since in self._seen.values())
            pool.slowest = max(pool.slowest, time.monotonic() - began)

    def _still(self, run: RecoverableRun, worker: WorkerHandle, process: WorkerProcess) -> float:
        """Return the seconds since a worker's last progress."""
        now, sign = time.monotonic(), run.pool.progress_of(worker)
        before, since = self._seen.get(process, (None, now))
        if before != sign:
            self._seen[process] = sign, now
            # Looked at a few times a second: what takes less is no matter.
            run.pool.slowest = max(run.pool.slowest, now - since)
            return 0.0
        return now - since

    def stopped(
        self, run: RecoverableRun, hung: list[WorkerHandle], seconds: float | None
    ) -> WorkerTimeout:
        """Stop and replace workers that hang, and return the error that names them.

        The others go on with the rows that they have begun, whose results are not used.
        """
        found = []
        for worker in hung:
            row = self._row_of(run, worker)
            action = "" if row == NO_ROW else run.memory.action(row)
            doing = "" if row == NO_ROW else f" at row {row}, action {action},"
            found.append(str(worker.hung(seconds, doing)))
            worker.restart()
        return WorkerTimeout("\n".join(found), workers=tuple(worker.index for worker in hung))

"""BatchRun: one batch on worker processes, from layout to results.

parent                              workers
load rows into a page
offer row ranges   --- pipe --->    claim a range, run it in place, claim the next
wait for all rows  <--- pipe ---    "I have run n rows"
give the page to the caller

What happens after a death, a hang or an error is told in `recovery`.
"""

from __future__ import annotations

import contextlib
import math
import time
from abc import abstractmethod
from typing import Any

import numpy as np

from plangym_ext.core.pending import Pending
from plangym_ext.core.results import RowResults, StateTransitions, Transitions
from plangym_ext.core.row_request import RowRequest
from plangym_ext.core.slot_stepper import SlotStepper
from plangym_ext.errors import EnvClosed, WorkerDied
from plangym_ext.workers.batch_layout import NO_ROW, ROW
from plangym_ext.workers.recovery import Recovery
from plangym_ext.workers.round import Round
from plangym_ext.workers.row_queue import Ranges
from plangym_ext.workers.shared_batch import SharedBatch
from plangym_ext.workers.worker_handle import WorkerHandle
from plangym_ext.workers.worker_pool import BatchOwner

#: Seconds between two looks at workers that have not answered.
_LOOK = 0.1


class WorkerStepper(SlotStepper):
    """A `SlotStepper` whose rows run in worker processes."""

    slot_storage = "shared"
    rows_are_checked_where_they_run = True

    @abstractmethod
    def _owner(self) -> BatchOwner:
        """Return the handle of the workers, whose rows are at least as wide as those here."""

    def _run(self, request: RowRequest) -> RowResults:
        run = BatchRun(self._owner(), request)
        run.start()
        try:
            run.abandoned = False
            return run.wait(None)
        finally:
            run.abandon()  # an interrupt may have come before it had an outcome

    def _start(self, request: RowRequest) -> Pending[RowResults]:
        run = BatchRun(self._owner(), request)
        run.start()
        return run.pending()

    def make_transitions(
        self,
        actions: Any,
        states: np.ndarray | None = None,
        dt: int | np.ndarray = 1,
        return_state: bool | None = None,
    ) -> Transitions | StateTransitions:
        """Step rows; the seed's name for `step_batch`: arguments and result as of `step_batch`."""
        return self.step_batch(actions, states, dt, return_state=return_state)


class BatchRun:
    """Runs one request on the workers of a pool.

    Args:
        owner: whose batch it is.
        request: what to run.

    Attributes:
        memory: where the arrays lie.
        queue: where the ranges are offered.
        round: the workers that may run them now.
        state_width: S, the bytes of the rows that it has room for.
        outcome: the results or an error, once there is one.
        abandoned: whether the results will not be asked for: they have been kept, or nothing
            waits for them or holds the `pending` ones; an interrupt may come before anything does.
    """

    memory: SharedBatch
    round: Round

    def __init__(self, owner: BatchOwner, request: RowRequest) -> None:
        self.owner, self.pool, self.request = owner, owner.pool, request
        self.abandoned = True
        self.outcome: RowResults | BaseException | None = None

    def start(self) -> None:
        """Lay the rows out, cut them into ranges, and offer these to the workers.

        A run that is started again has to be released; see `quiesce`.
        """
        pool, owner, request = self.pool, self.owner, self.request
        owner.check_open()
        # First: batches that were dropped may hold the page and the queue that this one needs.
        pool.reap()
        self.outcome = None
        self.state_width = owner.layout.state_width
        self._recovery = Recovery(request.num_rows)
        self.memory = SharedBatch(pool, owner.layout, request)
        self.queue = pool.arrivals.take_queue()
        self.round = Round(self.queue)
        # Known to the pool before anything can fail: `abort` and `reap` find it there.
        pool.runs.add(self)
        try:
            self.memory.load()
            sharers = 1 if owner.blocking else len(pool.workers)
            schedule = pool.scheduler.schedule(request.num_rows, request.horizon, sharers)
            self._usual, self._spin = int(1e9 * schedule.row_seconds), schedule.spin
            self.offer(schedule.ranges)
        except BaseException as error:
            self.abort(error)
            raise

    def offer(self, ranges: Ranges) -> None:
        """Offer ranges to the workers; none is running any."""
        pool, queue, memory = self.pool, self.queue, self.memory
        self.round.renew()
        able: list[WorkerHandle] = []
        if ranges:
            # An env that cannot be built any more raises here, before any row is run.
            able = pool.ready_workers()
            able = pool.workers[:1] if self.owner.blocking else able
            told = pool.send_layout(able, queue, memory.blocks, memory.layout)
            # Before the offer: a death is blamed on the row in its line, which an older batch may
            # have left there.
            memory.lines[:, ROW] = NO_ROW
            self.round.ask(able, told=told)
        queue.offer(self.round.request, memory.layout.number, ranges, self._usual, len(able))

    def pending(self) -> Pending[RowResults]:
        """Return the results to come; to be held by the caller alone."""
        # Made first: between the two an interrupt leaves the run abandoned, as it was.
        found = Pending(self.wait, self.poll, drop=self.abandon)
        self.abandoned = False
        return found

    # Waiting --------------------------------------------------------------------

    def poll(self, timeout: float) -> bool:
        """Return whether there is an outcome, after waiting for that up to `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while self.outcome is None:
            # Whatever came may be the last thing that was missing: looked at before the clock.
            if not self._advance(deadline) and time.monotonic() >= deadline:
                break
        return self.outcome is not None

    def wait(self, timeout: float | None) -> RowResults:
        """Wait for the results; further calls return, or raise, the same.

        A batch whose states have outgrown their rows is run again in wider ones.

        Args:
            timeout: seconds after which workers that have not answered are stopped.

        Returns:
            Arrays that belong to the caller, but for those of the request's `out`.

        Raises:
            PoisonState: a row has killed two workers.
            WorkerDied: workers keep dying before any row is done.
            WorkerTimeout: a worker hangs; it was stopped and replaced.
            Exception: what an env raised; the workers stay usable.
        """
        while True:
            deadline = math.inf if timeout is None else time.monotonic() + timeout
            while self.outcome is None:
                if self._advance(deadline) or time.monotonic() < deadline:
                    continue
                if waiting := self.round.waiting():
                    self.stop_hung(waiting, timeout)
            if self.memory.writes_elsewhere:  # memory that the caller may use again
                self.quiesce()
            if not isinstance(self.outcome, BaseException):
                return self.outcome
            self._recovery.run_wider(self, self.outcome)

    def finish(self) -> None:
        """Complete the batch and store its outcome."""
        self.poll(math.inf)
        if self.memory.writes_elsewhere:
            self.quiesce()

    def quiesce(self) -> None:
        """Wait until no worker runs rows, and release the batch's resources."""
        while self.round.waiting():
            self._advance(math.inf)
        self.reap()

    def _advance(self, deadline: float) -> bool:
        """See what comes from the workers; if they are through with the round, settle it.

        Then the results are kept if all rows are done, or what has to be run again is offered.

        Returns:
            Whether anything came.
        """
        queue, recovery = self.queue, self._recovery
        try:
            if self.round.waiting():
                came = self.pool.arrivals.pump(self._moment(deadline), self._spin)
                recovery.look(self, came=came)
                return came
            deaths = recovery.hear_replies(self)
            # Ranges that were taken back from an abandoned batch are not missed.
            if deaths or (queue.rows_left and not self.abandoned):
                self.offer(recovery.ranges_left(self, deaths))
                return True
            if recovery.num_left and not queue.rows_left:
                steps = recovery.num_left * self.request.horizon
                self.pool.scheduler.note(queue.heard, steps, time.monotonic_ns())
            self.land(self.memory.results())
            self.pool.has_run = True
            recovery.note_end(self.pool)
        except BaseException as error:  # an interrupt, too: who runs rows would go on writing
            self.abort(error)
            if not isinstance(error, Exception):
                raise
        return True

    def _moment(self, deadline: float) -> float:
        """Return the seconds until the next look at workers that have not answered."""
        limit = self._recovery.limit(self)
        moment = _LOOK if limit is None else min(_LOOK, limit / 2)
        # Half of the limit: a worker that hangs is found at most half a limit late.
        return max(0.0, min(moment, deadline - time.monotonic()))

    def progress_of(self, worker: int) -> int:
        """Return the row of this batch that a worker is running, or `NO_ROW`."""
        return int(self.memory.lines[worker, ROW])

    def stop_hung(self, hung: list[WorkerHandle], seconds: float | None) -> None:
        """End the batch with an error that names workers which hang, and replace those."""
        self.land(self._recovery.stopped(self, hung, seconds))

    # The end --------------------------------------------------------------------

    def abandon(self) -> None:
        """Note that the results will not be asked for; called in any thread, at any line."""
        self.abandoned = True

    def land(self, outcome: RowResults | BaseException) -> None:
        """Store the outcome; resources are released when no worker runs rows."""
        if self.outcome is None:
            self.outcome = outcome
        if isinstance(outcome, BaseException):
            self.queue.discard()
        self.abandoned = True
        self.reap()

    def reap(self) -> None:
        """Release a batch that has landed or was abandoned, if its workers are through."""
        if self.outcome is None:
            self.queue.discard()
        if self not in self.pool.runs:
            return
        if self.round.waiting():
            self.round.ask_to_finish()
            return
        self.round.end(self.pool.workers)
        if self.outcome is None:
            self.outcome = WorkerDied("this batch was abandoned")
        self.memory.release()
        self.pool.runs.discard(self)
        self.pool.arrivals.give_back(self.queue)

    def abort(self, error: BaseException) -> None:
        """End the batch at once: workers that are running rows of it are replaced."""
        with contextlib.suppress(EnvClosed):
            for worker in self.round.waiting():
                worker.restart()
        self.land(error)

    def cancel(self, error: Exception) -> None:
        """End it with an error; all workers are gone."""
        self.round.asked = {}
        self.land(error)

"""BatchRun: one batch on workers from layout to results, with recovery from deaths and hangs.

parent                              workers
load rows into memory
offer the rows     --------->       run them: a round
wait for all rows  <---------       "I have run n rows"
give the memory to the caller

The workers are processes (`process_rows`) or Ray actors (`ray.ray_rows`). One that dies is
replaced at once, and the rows that are not done are offered again from the caller's states. A row
that kills workers, or one that does not end, is named.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from plangym_ext.core.pending import Pending
from plangym_ext.core.results import RowResults, StateTransitions, Transitions
from plangym_ext.core.row_request import RowRequest
from plangym_ext.core.rows import RowLayout
from plangym_ext.core.slot_stepper import SlotStepper
from plangym_ext.errors import PoisonState, WorkerDied
from plangym_ext.states.envelope import Envelope
from plangym_ext.states.part import StateTooWide
from plangym_ext.workers.batch_layout import NO_ROW, Round, Rows
from plangym_ext.workers.limits import MAX_IDLE_ROUNDS, MAX_KILLS


class BatchOwner(Protocol):
    """Protocol of the handle that owns batches.

    Attributes:
        runs: those that have begun and are not released.
        row_timeout: seconds after which a worker that has not got on counts as hung.
    """

    runs: Runs
    row_timeout: float | None

    @property
    def transport(self) -> Callable[[Any, RowRequest], Rows]:
        """The class of their `Rows`."""

    @property
    def layout(self) -> RowLayout:
        """Layout of the rows, as wide as they are now."""

    @property
    def envelope(self) -> Envelope:
        """Seals and checks their states."""

    def widen(self, width: int) -> None:
        """Make room for states of `width` bytes, here and in every worker."""

    def wider(self, excess: int) -> int:
        """Return the width for states that need `excess` bytes more."""


class Runs(set["BatchRun"]):
    """The batches of one handle that have begun and are not released."""

    def reap(self) -> None:
        """Release batches whose results will not be asked for, as far as they are done."""
        for run in [run for run in self if run.abandoned]:
            # Errors are seen again when workers are needed.
            with contextlib.suppress(Exception):
                run.rows.listen(0.0)
            run.reap()

    def end_abandoned(self) -> None:
        """Wait for batches whose results will not be asked for, and release them."""
        self.reap()
        for run in [run for run in self if run.abandoned]:
            run.finish()
            run.quiesce()

    def settle(self) -> None:
        """Complete every batch in flight; each stores its outcome."""
        for run in list(self):
            run.finish()

    def cancel(self, error: Exception) -> None:
        """End every batch with an error; all workers are gone."""
        for run in list(self):
            run.rows.cancel()
            run.land(error)


class WorkerStepper(SlotStepper):
    """A `SlotStepper` whose rows run on workers."""

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
            run.abandoned = True  # an interrupt may have come before it had an outcome

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
    """Runs one request on workers.

    Attributes:
        rows: its memory, and the workers that run it now.
        outcome: the results or an error, once there is one.
        abandoned: whether the results will not be asked for: they have been kept, or nothing
            waits for them or holds the `pending` ones; an interrupt may come before anything does.
    """

    rows: Rows

    def __init__(self, owner: BatchOwner, request: RowRequest) -> None:
        self.owner, self.request = owner, request
        self.abandoned = True

    def start(self) -> None:
        """Lay the rows out, and offer them to the workers.

        A run that is started again has to be released; see `quiesce`.
        """
        owner = self.owner
        if owner.runs:  # those that were dropped may hold the memory that this one needs
            owner.runs.reap()
        self.outcome: RowResults | BaseException | None = None
        self._kills: dict[int, int] = {}
        #: Rows that are not done, as far as deaths have had them counted.
        self._left = self.request.num_rows
        #: Fewest rows of which one has killed a worker.
        self._suspects = self._left + 1
        self._idle_rounds = 0
        self.rows = owner.transport(owner, self.request)
        # Known before anything can fail: `abort` and `reap` find it there.
        owner.runs.add(self)
        try:
            self.rows.begin()
        except BaseException as error:
            self._abort(error)
            raise

    def pending(self) -> Pending[RowResults]:
        """Return the handle of the pending results; only the caller may hold it."""
        # Made first: between the two an interrupt leaves the run abandoned, as it was.
        found = Pending(self.wait, self.poll, drop=self.abandon)
        self.abandoned = False
        return found

    # Waiting --------------------------------------------------------------------

    def poll(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for an outcome; return whether there is one."""
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
                if waiting := self.rows.waiting():
                    self.land(self.rows.stopped(waiting, timeout))
            if self.rows.writes_elsewhere:  # memory that the caller may use again
                self.quiesce()
            if not isinstance(self.outcome, BaseException):
                return self.outcome
            self._run_wider(self.outcome)

    def finish(self) -> None:
        """Complete the batch and store its outcome."""
        self.poll(math.inf)
        if self.rows.writes_elsewhere:
            self.quiesce()

    def quiesce(self) -> None:
        """Wait until no worker runs rows, and release the batch's resources."""
        while self.rows.waiting():
            self._advance(math.inf)
        self.reap()

    def _advance(self, deadline: float) -> bool:
        """See what comes from the workers; if they are through with the round, settle it.

        Then the results are stored if all rows are done; else the unfinished rows are offered
        again.

        Returns:
            Whether anything came.
        """
        rows = self.rows
        try:
            if rows.waiting():
                if rows.listen(deadline - time.monotonic()):
                    return True
                self._stop_hung()
                return False
            # Rows that were taken back from an abandoned batch are not missed.
            if (over := rows.end_round()) and self._judge(over) and not self.abandoned:
                rows.offer_again(over.left, over.deaths)
            else:
                self.land(rows.results())
        except BaseException as error:  # an interrupt, too: who runs rows would go on writing
            self._abort(error)
            if not isinstance(error, Exception):
                raise
        return True

    def _stop_hung(self) -> None:
        """End batches with an error that names workers which hang, and replace those."""
        hung, limit = self.rows.hung()
        for worker in hung:
            # It may be another batch that it does not get on with.
            run = next((run for run in self.owner.runs if run.rows.row_of(worker) != NO_ROW), self)
            run.land(run.rows.stopped([worker], limit))

    # Errors, deaths and wider states --------------------------------------------

    def _judge(self, over: Round) -> bool:
        """Return whether rows have to be run again after an unusual round."""
        num_left = len(over.left)
        if over.failures:
            # The lowest row speaks for all, so the message does not depend on timing alone.
            _, report, where = min(over.failures, key=lambda failure: failure[0])
            raise report.rebuild(where)
        if over.excess:
            raise StateTooWide(over.excess)
        idle, self._left = num_left == self._left, num_left
        for death in over.deaths:
            size = death.rows[1] - death.rows[0]
            if size > 1 and size < self._suspects:
                idle, self._suspects = False, size
            if size != 1:
                continue
            row, idle = death.rows[0], False
            self._kills[row] = self._kills.get(row, 0) + 1
            if self._kills[row] >= MAX_KILLS:
                raise self._poison(row, death.error)
        self._idle_rounds = self._idle_rounds + 1 if idle else 0
        if over.deaths and self._idle_rounds >= MAX_IDLE_ROUNDS:
            raise over.deaths[-1].error
        return bool(over.deaths) or num_left > 0

    def _poison(self, row: int, death: WorkerDied) -> PoisonState:
        action = self.rows.action(row)
        return PoisonState(
            f"states[{row}] with action {action} has killed {MAX_KILLS} "
            f"workers; the last: {death} Run the other rows without this one.",
            row=row,
            state=self.rows.state(row),
            action=action,
            worker=death.worker,
            pid=death.pid,
            exit_status=death.exit_status,
            last_command=death.last_command,
        )

    def _run_wider(self, outcome: BaseException) -> None:
        """Restart the batch with wider rows if its states have outgrown them; else raise."""
        owner, request = self.owner, self.request
        if not isinstance(outcome, StateTooWide):
            if request.unchecked and isinstance(outcome, Exception):
                # A refusal names the first of all rows, and goes before other errors.
                owner.envelope.check(request.states, request.unchecked)
            raise outcome
        self.quiesce()
        # Another batch may have made them wider since this one began.
        short = self.rows.state_width + outcome.excess - owner.layout.state_width
        if short > 0:
            owner.widen(owner.wider(short))
        if request.slots is not None:
            request.slots.store.widen(owner.layout.state_width)
            self.request = dataclasses.replace(request, states=request.slots.store.rows)
        self.start()
        self.abandoned = False

    # The end --------------------------------------------------------------------

    def abandon(self) -> None:
        """Note that the results will not be asked for; called in any thread, at any line."""
        self.abandoned = True

    def land(self, outcome: RowResults | BaseException) -> None:
        """Store the outcome; resources are released when no worker runs rows."""
        if self.outcome is None:
            self.outcome = outcome
        if isinstance(outcome, BaseException):
            self.rows.discard()
        self.abandoned = True
        self.reap()

    def reap(self) -> None:
        """Release a batch that has its outcome or was abandoned, if its workers have finished."""
        rows = self.rows
        if self.outcome is None:
            rows.discard()
        if self not in self.owner.runs:
            return
        if rows.waiting():
            rows.ask_to_finish()
            if rows.waiting():
                return
        rows.release()
        if self.outcome is None:
            self.outcome = WorkerDied("this batch was abandoned")
        self.owner.runs.discard(self)

    def _abort(self, error: BaseException) -> None:
        """End the batch at once: workers that are running rows of it are replaced."""
        self.rows.abort()
        self.land(error)

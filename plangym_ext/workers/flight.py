"""One batch in flight between a parent and its workers.

parent                              workers
load rows into a page
offer row ranges   --- pipe --->    claim a range, run it in place, claim the next
wait for all rows  <--- pipe ---    "I have run n rows"
give the page to the caller

A worker that has claimed nothing has nothing to report. Only if something goes wrong or takes
long is each asked to finish: once all have answered or died, none runs rows any more.
"""

from __future__ import annotations

import contextlib
import math
import pickle
import time
from typing import Any

import numpy as np

from plangym_ext.core.row_request import RowRequest
from plangym_ext.core.rows import RowLayout, RowResults
from plangym_ext.errors import EnvClosed, PoisonState, WorkerDied, WorkerTimeout
from plangym_ext.states.part import StateTooWide
from plangym_ext.workers.batch_memory import BatchMemory
from plangym_ext.workers.channel import ChannelDamaged
from plangym_ext.workers.external_process import ExternalProcess, next_request
from plangym_ext.workers.process import WorkerProcess
from plangym_ext.workers.row_blame import MAX_KILLS, RowBlame
from plangym_ext.workers.row_ranges import ranges_of, split_rows
from plangym_ext.workers.rows_message import NO_ROW, ROW
from plangym_ext.workers.worker_pool import StillWatch, WorkerPool

#: Seconds between two looks at workers that have not answered.
_LOOK = 0.1


class Flight:
    """Runs one request on a crew; `wait` may be called once.

    Args:
        crew: whose workers run it.
        layout: of their rows.
        request: what to run.
        one_by_one: give all rows to one worker instead of sharing them.
        row_timeout: seconds after which a worker that has not got on counts as hung.
    """

    def __init__(
        self,
        crew: WorkerPool,
        layout: RowLayout,
        request: RowRequest,
        *,
        one_by_one: bool,
        row_timeout: float | None,
    ) -> None:
        self._crew, self._layout, self._request = crew, layout, request
        self._one_by_one = one_by_one
        self._row_timeout = row_timeout
        self._watch = StillWatch(row_timeout)
        self._awake = self._usual = 0.0
        self._outcome: RowResults | BaseException | None = None
        #: Nobody will ask for the results.
        self.abandoned: bool = False
        #: Number of the round's request, and who may run its rows: processes, for a worker
        #: may be replaced before the round is over.
        self._round = 0
        #: Number of the request to finish the round, if that was made.
        self._finish: int | None = None
        #: Whether the workers were told something before it.
        self._told = False
        self._rung: dict[ExternalProcess, WorkerProcess] = {}
        self._blame = RowBlame(request.num_rows)
        self._lane = crew.take_lane()
        try:
            self._memory = BatchMemory(crew, layout, request)
        except BaseException:
            crew.give_back(self._lane)
            raise
        self._batch = self._memory.batch
        crew.flights.add(self)
        try:
            sharers = 1 if one_by_one else len(crew.workers)
            pace = crew.pace
            self._usual = row_seconds = pace.row_seconds(request.horizon)
            self._awake = pace.awake(row_seconds * request.num_rows / sharers)
            self._ring(split_rows(request.num_rows, sharers, row_seconds, pace.excess))
        except BaseException as error:
            self._abort(error)
            raise

    @property
    def state_width(self) -> int:
        """S, the bytes of the rows that it has room for."""
        return self._layout.state_width

    # Rounds ---------------------------------------------------------------------

    def _ring(self, ranges: list[tuple[int, int]]) -> None:
        """Have workers run ranges; nobody is running any."""
        crew = self._crew
        self._round, self._finish = next_request(), None
        self._rung = {}
        if not ranges:
            self._lane.begin(self._round, ranges, 0)
            return
        able = crew.ready_workers()
        able = crew.workers[:1] if self._one_by_one else able
        # An env that cannot be built any more raises here, before anybody runs a row.
        memory, lane = self._memory, self._lane
        self._told = crew.introduce(able, lane, memory.blocks, memory.plan)
        memory.lines[:, ROW] = NO_ROW
        for worker in able:
            self._rung[worker] = worker.process
            worker.begun("rows")
        lane.begin(self._round, ranges, len(able))
        lane.queue.offer(self._round, memory.plan.number, ranges, int(1e9 * self._usual))

    def _waiting(self) -> list[ExternalProcess]:
        """Workers that may be running rows: as long as there are such, the round is not over."""
        if not self._lane.rows_left and self._finish is None:
            return []
        return [
            worker
            for worker, process in self._rung.items()
            if process.fallen is None
            and not (self._finish is not None and worker.has_answer(self._finish))
        ]

    def _ask_to_finish(self) -> None:
        """Have every worker say when it has run what it has claimed; once a round."""
        if self._finish is None:
            self._finish = next_request()
            for worker, process in self._rung.items():
                if worker.process is process:
                    with contextlib.suppress(WorkerDied, EnvClosed):
                        worker.post(("finish", self._finish, self._lane.number))
                    worker.begun("rows")

    def progress_of(self, worker: int) -> int:
        """The row of this batch that a worker is running, or `NO_ROW`."""
        return int(self._memory.lines[worker, ROW])

    def poll(self, timeout: float) -> bool:
        """Whether the batch is done, after waiting for that up to `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while self._outcome is None:
            if not self._waiting():
                self._settle_round()
            elif not self._look(deadline) and time.monotonic() >= deadline:
                break
        return self._outcome is not None

    def wait(self, timeout: float | None) -> RowResults:
        """Wait for the batch.

        Args:
            timeout: seconds after which workers that have not answered are stopped.

        Returns:
            Arrays that belong to the caller, but for those of the request's `out`.

        Raises:
            PoisonState: a row has killed two workers.
            WorkerDied: workers keep dying before any row is done.
            WorkerTimeout: a worker hangs; it was stopped and replaced.
            StateTooWide: a state outgrew its row; the request can be run again in wider ones.
            Exception: what an env raised; the workers stay usable.
        """
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while self._outcome is None:
            if not (waiting := self._waiting()):
                self._settle_round()
            elif not self._look(deadline) and time.monotonic() >= deadline:
                self.stop_hung(waiting, timeout)
        if self._memory.writes_elsewhere:
            # The caller may use that memory again, so nobody is to write there any more.
            while self._waiting():
                self._look(math.inf)
            self.reap()
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome

    def _look(self, deadline: float) -> bool:
        """See what comes from the workers, for a moment; replace those that died or hang.

        Returns:
            Whether anything came.
        """
        moment = _LOOK if self._row_timeout is None else min(_LOOK, self._row_timeout / 2)
        try:
            came = self._crew.pump(max(0.0, min(moment, deadline - time.monotonic())), self._awake)
            for worker, process in self._rung.items():
                # At once, so that the new one is ready when this round is over.
                if process.fallen is not None and worker.process is process:
                    worker.restart()
                    self._ask_to_finish()
            if self._lane.failed or self._wants_all():
                self._ask_to_finish()
            if not came:
                self._look_for_hung()
        except BaseException as error:  # an interrupt: whoever runs rows would go on writing
            self._abort(error)
            raise
        return came

    def _wants_all(self) -> bool:
        """Whether all workers are to be heard, though the rows are done without some.

        So that what they were told has been done, such as to let go of memory, and batches that
        were abandoned do not pile up; and for a worker that is stopped while others run what it
        would have.
        """
        lane, crew = self._lane, self._crew
        if lane.rows_left:
            return False
        if self._told:
            return True
        if len(crew.flights) > 1 and any(one.abandoned for one in crew.flights if one is not self):
            return True
        if len(lane.reporters) >= lane.sharers:
            return False
        workers = crew.workers
        silent = set(self._rung) - {workers[index] for index in lane.reporters}
        return any(worker.process.stopped for worker in silent)

    def _look_for_hung(self) -> None:
        # Who has nothing to run answers at once, and is not held to hang.
        self._ask_to_finish()
        for worker in self._waiting():
            if self._watch.stuck(self._rung[worker], self._crew.progress_of(worker)):
                # It may be another batch that it does not get on with.
                batch = self._crew.batch_at(worker) or self
                batch.stop_hung([worker], self._row_timeout)

    def stop_hung(self, hung: list[ExternalProcess], seconds: float | None) -> None:
        """End the batch with an error that names workers which hang, and replace those.

        The others go on with the rows that they have begun; nobody will see them.
        """
        found = []
        for worker in hung:
            row = self._row_of(worker)
            doing = "" if row == NO_ROW else f" at row {row}, action {self._memory.action(row)},"
            found.append(str(worker.hung(seconds, doing)))
            worker.restart()
        numbers = tuple(worker.index for worker in hung)
        self._land(WorkerTimeout("\n".join(found), workers=numbers))

    def _row_of(self, worker: ExternalProcess) -> int:
        return self.progress_of(self._crew.workers.index(worker))

    def _settle_round(self) -> None:
        """Read the answers of a round that is over; run on what dead workers left."""
        lane = self._lane
        try:
            deaths = self._judge_answers()
            # Ranges that were taken back from an abandoned batch are missed by nobody.
            if not deaths and (self.abandoned or not lane.rows_left):
                if (num_rows := self._blame.num_left) and not lane.rows_left:
                    steps = num_rows * self._request.horizon
                    self._crew.pace.note(lane, steps, time.monotonic_ns())
                self._land(self._memory.results())
                return
            # If all of them died, ranges are left that nobody has claimed.
            self._lane.queue.discard()
            left = self._rows_left()
            self._judge_deaths(deaths, len(left))
            self._ring(ranges_of(left))
        except Exception as error:
            self._land(error)
        except BaseException as error:
            self._abort(error)
            raise

    def _judge_answers(self) -> dict[ExternalProcess, WorkerDied]:
        """Take what the workers answered; returns those that died instead.

        Raises:
            StateTooWide, Exception: what they report.
        """
        deaths: dict[ExternalProcess, WorkerDied] = {}
        errors: list[tuple[Any, str]] = []
        excess = 0
        for worker, process, answer in self._end_round():
            if process.fallen is not None and self._lane.rows_left:
                deaths[worker] = process.fallen
            if answer is None:
                continue
            if answer[0] == "too wide":
                excess = max(excess, answer[1])
            elif answer[0] == "error":
                errors.append((answer[1], worker.where))
            else:
                self._batch.take_own(*pickle.loads(answer[1]))
        if errors or excess:
            self._lane.queue.discard()
        if errors:
            # The lowest row speaks for all, so the message does not depend on timing alone.
            report, where = min(errors, key=lambda e: e[0].row if e[0].row is not None else -1)
            raise report.rebuild(where)
        if excess:
            raise StateTooWide(excess)
        return deaths

    def _end_round(self) -> list[tuple[ExternalProcess, WorkerProcess, tuple[str, Any] | None]]:
        """End the round: what each of its workers had to say beside its report, if anything."""
        rung, self._rung = self._rung, {}
        if not (self._lane.rows_left or self._lane.speakers or self._finish is not None):
            return []  # nothing went wrong, and nobody had to say more than a report does
        speakers = [self._crew.workers[index] for index in self._lane.speakers]
        found = []
        for worker, process in rung.items():
            # What it had to say was said before the report: it is in the channel.
            while worker in speakers and process.fallen is None:
                if worker.has_answer(self._round):
                    break
                if process.channel.has_come():
                    worker.receive()
                else:  # it has reported what it never sent
                    worker.damaged(ChannelDamaged("an answer that was announced is missing"))
            if self._finish is not None and process.fallen is None:
                worker.forget(self._finish)
            found.append((worker, process, worker.taken(self._round)))
        return found

    def _judge_deaths(self, deaths: dict[ExternalProcess, WorkerDied], num_left: int) -> None:
        """Find out whether a row kills workers.

        Args:
            deaths: the workers, and how they ended.
            num_left: rows that are not done.

        Raises:
            PoisonState: one of them was being run when two workers died.
            WorkerDied: the workers die, again and again, and no row gets done.
        """
        rows = [(self._row_of(worker), death) for worker, death in deaths.items()]
        done = self._batch.done
        found = [(NO_ROW if row != NO_ROW and done[row] else row, death) for row, death in rows]
        if (culprit := self._blame.note(found, num_left)) is None:
            return
        row, death = culprit
        raise PoisonState(
            f"states[{row}] with action {self._memory.action(row)} has killed {MAX_KILLS} "
            f"workers; the last: {death} Run the other rows without this one.",
            row=row,
            state=self._memory.state(row),
            action=self._memory.action(row),
            worker=death.worker,
            pid=death.pid,
            exit_status=death.exit_status,
            last_command=death.last_command,
        )

    def _rows_left(self) -> np.ndarray:
        """Rows that have to be run again from the caller's states."""
        left = ~self._batch.done
        # The answers with what these rows have of their own have come.
        left[[*self._batch.own_infos, *self._batch.own_objects]] = False
        rows: np.ndarray = np.flatnonzero(left)
        return rows

    # The end --------------------------------------------------------------------

    def _land(self, outcome: RowResults | BaseException) -> None:
        """Keep the outcome; what the batch uses is given back when nobody runs its rows."""
        if self._outcome is None:
            self._outcome = outcome
        if isinstance(outcome, BaseException):
            self._lane.queue.discard()
        self.abandoned = True
        self.reap()

    def reap(self) -> None:
        """Release a batch that has landed or was abandoned, if its workers are through."""
        if self._outcome is None:
            self._lane.queue.discard()
        if self not in self._crew.flights:
            return
        if self._waiting():
            self._ask_to_finish()
            return
        self._end_round()
        if self._outcome is None:
            self._outcome = WorkerDied("this batch was abandoned")
        self._memory.release()
        self._crew.flights.discard(self)
        self._crew.give_back(self._lane)

    def _abort(self, error: BaseException) -> None:
        """End the batch at once: whoever is running rows of it is replaced."""
        with contextlib.suppress(EnvClosed):
            for worker in self._waiting():
                worker.restart()
        self._land(error)

    def cancel(self, error: Exception) -> None:
        """End it with an error; all workers are gone."""
        self._rung = {}
        self._land(error)

"""One batch in flight between a parent and its workers.

parent                              workers
load rows into a page
offer row ranges   --- pipe --->    claim a range, run it in place, claim the next
ring each worker   --- socket -->
wait for all       <-- socket ---   "no ranges left"
give the page to the caller
"""

from __future__ import annotations

import contextlib
import pickle
import time
from typing import Any

import numpy as np

from plangym_ext.core.part import StateTooWide
from plangym_ext.core.row_request import RowRequest
from plangym_ext.core.rows import RowLayout, RowResults
from plangym_ext.errors import PoisonState, WorkerDied, WorkerTimeout
from plangym_ext.vectorization.batch_memory import BatchMemory
from plangym_ext.vectorization.claims import MAX_RANGES, split_rows
from plangym_ext.vectorization.crew import Crew, StillWatch
from plangym_ext.vectorization.external_process import ExternalProcess, next_request
from plangym_ext.vectorization.rows_message import (
    NO_ROW,
    progress_view,
)

#: Workers that one row may kill before it is held to be the cause.
_MAX_KILLS = 2
#: Rounds in a row that may lose workers without any row being done or blamed.
_MAX_IDLE_ROUNDS = 3
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
        crew: Crew,
        layout: RowLayout,
        request: RowRequest,
        *,
        one_by_one: bool,
        row_timeout: float | None,
    ) -> None:
        self._crew, self._layout, self._request = crew, layout, request
        self._one_by_one = one_by_one
        self._row_timeout = row_timeout
        self._outcome: RowResults | BaseException | None = None
        #: Nobody will ask for the results.
        self.abandoned: bool = False
        #: Number of the round's request, and who was asked: processes, for a worker may
        #: be replaced while another batch is waited for.
        self._round = 0
        self._rung: dict[ExternalProcess, object] = {}
        self._kills: dict[int, int] = {}
        self._idle_rounds = 0
        self._memory = BatchMemory(crew, layout, request)
        self._batch = self._memory.batch
        self._lane = crew.take_lane()
        crew.flights.add(self)
        try:
            sharers = 1 if one_by_one else len(crew.workers)
            row_seconds = crew.row_seconds(request.horizon)
            self._begun = time.monotonic()
            self._ring(split_rows(request.num_rows, sharers, row_seconds))
        except BaseException as error:
            self._abort()
            self._land(error)
            raise
        self._memory.prepare_results()

    # Rounds ---------------------------------------------------------------------

    def _ring(self, ranges: list[tuple[int, int]]) -> None:
        """Have workers run ranges."""
        crew = self._crew
        self._round = next_request()
        self._rung = {}
        if not ranges:
            return
        for index in range(len(crew.workers)):
            progress_view(self._memory.page, index)[...] = NO_ROW
        self._lane.queue.offer(self._round, ranges)
        message = ("rows", self._round, self._lane.number, self._memory.message)
        pickled = pickle.dumps(message, protocol=5)
        able = crew.workers[:1] if self._one_by_one else crew.ready_workers()
        for worker in able[: len(ranges)]:
            self._rung[worker] = worker.process
            with contextlib.suppress(WorkerDied):  # seen again when it is waited for
                crew.introduce(worker, self._lane, self._memory.blocks)
                worker.post_pickled("rows", pickled)
        if len(self._rung) == len(crew.workers):
            crew.forget_gone()

    def _waiting(self) -> list[ExternalProcess]:
        """Workers that have neither answered nor died."""
        return [
            worker
            for worker, process in self._rung.items()
            if not worker.has_answer(self._round)
            and worker.process is process
            and worker.fallen is None
        ]

    def progress_of(self, worker: int) -> int:
        """The row of this batch that a worker is running, or `NO_ROW`."""
        return int(progress_view(self._memory.page, worker)[0])

    def reap(self) -> None:
        """Release an abandoned batch, if its workers are through with it."""
        self._lane.queue.discard()
        if not self._waiting():
            self._abort()
            self._land(WorkerDied("this batch was abandoned"))

    def poll(self, timeout: float) -> bool:
        """Whether the batch is done, after waiting for that up to `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while self._outcome is None:
            while self._waiting():
                left = deadline - time.monotonic()
                if not self._crew.pump(max(0.0, left)) and left <= 0:
                    return False
            self._settle_round()
        return True

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
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._outcome is None:
            self._await_round(deadline, timeout)
            self._settle_round()
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome

    def _await_round(self, deadline: float | None, timeout: float | None) -> None:
        watch = StillWatch(self._row_timeout)
        look = _LOOK if self._row_timeout is None else min(_LOOK, self._row_timeout / 2)
        try:
            while waiting := self._waiting():
                left = look if deadline is None else min(look, deadline - time.monotonic())
                if self._crew.pump(max(0.0, left)):
                    continue
                if deadline is not None and time.monotonic() >= deadline:
                    self._stop_hung(waiting, timeout)
                hung = [w for w in waiting if watch.stuck(w, self._crew.progress_of(w))]
                if hung:
                    self._stop_hung(hung, self._row_timeout)
        except BaseException as error:
            # Interrupted, or hung: whoever has not answered would go on writing.
            self._abort()
            self._land(error)
            raise

    def _row_of(self, worker: ExternalProcess) -> int:
        return self.progress_of(self._crew.workers.index(worker))

    def _stop_hung(self, hung: list[ExternalProcess], seconds: float | None) -> None:
        """Stop workers that hang, and say what each was doing."""
        found = []
        for worker in hung:
            row = self._row_of(worker)
            doing = "" if row == NO_ROW else f" at row {row}, action {self._action(row)},"
            found.append(worker.hung(seconds, doing))
        raise WorkerTimeout(
            "\n".join(str(error) for error in found),
            workers=tuple(worker.index for worker in hung),
        )

    def _settle_round(self) -> None:
        """Read the answers of a round that is over; run on what dead workers left."""
        try:
            deaths = self._judge_answers()
            if not deaths:
                if self._request.num_rows and not self._one_by_one:
                    took = time.monotonic() - self._begun
                    self._crew.note_cost(took, self._request.num_rows, self._request.horizon)
                self._land(self._memory.results())
                return
            self._blame(deaths)
            # If all of them died, ranges are left that nobody has claimed.
            self._lane.queue.discard()
            self._ring(self._rows_left())
        except BaseException as error:
            if not isinstance(error, Exception):
                self._abort()
            self._land(error)
            if not isinstance(error, Exception):
                raise

    def _judge_answers(self) -> list[tuple[ExternalProcess, WorkerDied]]:
        """Take what the workers answered; returns those that died instead.

        Raises:
            StateTooWide, Exception: what they report.
        """
        deaths: list[tuple[ExternalProcess, WorkerDied]] = []
        errors: list[tuple[Any, str]] = []
        excess = 0
        for worker, process in self._rung.items():
            answer = worker.taken(self._round)
            if answer is None:
                deaths.append((worker, self._death(worker, process)))
            elif answer[0] == "too wide":
                excess = max(excess, answer[1])
            elif answer[0] == "error":
                errors.append((answer[1], worker.where))
            else:
                self._batch.own_infos.update(answer[1])
        self._rung = {}
        for worker, _ in deaths:
            if worker.fallen is not None:
                worker.restart()
        if errors or excess:
            self._lane.queue.discard()
        if errors:
            # The lowest row speaks for all, so the message does not depend on timing alone.
            report, where = min(errors, key=lambda e: e[0].row if e[0].row is not None else -1)
            raise report.rebuild(where)
        if excess:
            raise StateTooWide(excess)
        return deaths

    @staticmethod
    def _death(worker: ExternalProcess, process: Any) -> WorkerDied:
        if worker.fallen is not None and worker.process is process:
            return worker.fallen
        # Another batch has replaced it already.
        return WorkerDied(
            f"worker {worker.index} (pid {process.pid}) died during 'rows'.",
            worker=worker.index,
            pid=process.pid,
            last_command="rows",
        )

    def _blame(self, deaths: list[tuple[ExternalProcess, WorkerDied]]) -> None:
        """Count which rows were being run when their workers died.

        Raises:
            PoisonState: one of them was, twice.
            WorkerDied: the workers die before they begin a row, again and again.
        """
        blamed = False
        for worker, death in deaths:
            row = self._row_of(worker)
            if row == NO_ROW or self._batch.done[row]:
                continue
            blamed = True
            self._kills[row] = self._kills.get(row, 0) + 1
            if self._kills[row] >= _MAX_KILLS:
                raise PoisonState(
                    f"states[{row}] with action {self._action(row)} has killed {_MAX_KILLS} "
                    f"workers; the last: {death} Run the other rows without this one.",
                    row=row,
                    state=self._state(row),
                    action=self._action(row),
                    worker=death.worker,
                    pid=death.pid,
                    exit_status=death.exit_status,
                    last_command=death.last_command,
                )
        self._idle_rounds = 0 if blamed else self._idle_rounds + 1
        if self._idle_rounds >= _MAX_IDLE_ROUNDS:
            raise deaths[0][1]

    def _action(self, row: int) -> Any:
        action = self._layout.action.join(tuple(a[row].copy() for a in self._batch.actions))
        return action[0] if self._request.horizon == 1 and self._layout.action.is_flat else action

    def _state(self, row: int) -> np.ndarray:
        slots = self._request.slots
        source = row if slots is None else int(slots.sources[row])
        state: np.ndarray = self._request.states[source].copy()
        return state

    def _rows_left(self) -> list[tuple[int, int]]:
        """Ranges of the rows that have to be run again from the caller's states.

        Single rows, so that one that kills its worker takes no other along; longer ranges
        if there are more rows than the queue can hold.
        """
        left = ~self._batch.done
        left[list(self._batch.own_infos)] = False  # the answers with these infos have come
        rows = np.flatnonzero(left)
        size = max(1, -(-len(rows) // MAX_RANGES))
        # Rows that lie between are done, and running them again gives the same.
        return [
            (int(rows[k]), int(rows[min(k + size, len(rows)) - 1]) + 1)
            for k in range(0, len(rows), size)
        ]

    # The end --------------------------------------------------------------------

    def _abort(self) -> None:
        """Make sure that nobody writes into the page any more."""
        self._lane.queue.discard()
        for worker in self._waiting():
            worker.restart()
        for worker, process in self._rung.items():
            worker.taken(self._round)
            if worker.fallen is not None and worker.process is process:
                worker.restart()
        self._rung = {}

    def _land(self, outcome: RowResults | BaseException) -> None:
        """Keep the outcome and give back what the batch has used; once."""
        if self._outcome is not None:
            return
        self._outcome = outcome
        self._memory.release()
        self._crew.give_back(self._lane)
        self._crew.flights.discard(self)

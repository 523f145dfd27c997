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
import math
import pickle
import time
from typing import Any

import numpy as np

from plangym_ext.core.part import StateTooWide
from plangym_ext.core.row_request import RowRequest
from plangym_ext.core.rows import RowLayout, RowResults
from plangym_ext.errors import EnvClosed, PoisonState, WorkerDied, WorkerTimeout
from plangym_ext.vectorization.batch_memory import BatchMemory
from plangym_ext.vectorization.claims import MAX_RANGES, split_rows
from plangym_ext.vectorization.crew import Crew, StillWatch
from plangym_ext.vectorization.external_process import ExternalProcess, next_request
from plangym_ext.vectorization.rows_message import NO_ROW, ROW, TAKEN
from plangym_ext.vectorization.worker_process import WorkerProcess

#: Workers that one row may kill before it is held to be the cause.
_MAX_KILLS = 2
#: Rounds in a row that may lose workers without any row being done or blamed for it.
_MAX_IDLE_ROUNDS = 3
#: Seconds for which the parent stays awake behind a batch that should end within them.
_AWAKE = 500e-6
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
        self._watch = StillWatch(row_timeout)
        self._awake = 0.0
        self._outcome: RowResults | BaseException | None = None
        #: Nobody will ask for the results.
        self.abandoned: bool = False
        #: Number of the round's request, and who was asked: processes, for a worker may
        #: be replaced before the round is over.
        self._round = 0
        self._rung: dict[ExternalProcess, WorkerProcess] = {}
        self._kills: dict[int, int] = {}
        self._idle_rounds = 0
        self._num_left = request.num_rows
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
            row_seconds = crew.row_seconds(request.horizon)
            expected = row_seconds * request.num_rows / sharers
            self._awake = _AWAKE if expected < _AWAKE else 0.0
            self._ring(split_rows(request.num_rows, sharers, row_seconds))
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
        self._round = next_request()
        self._rung = {}
        if not ranges:
            return
        able = crew.ready_workers()
        able = crew.workers[:1] if self._one_by_one else able[: len(ranges)]
        # An env that cannot be built any more raises here, before anybody runs a row.
        memory, plan = self._memory, crew.plan(self._memory.message)
        for worker in able:
            with contextlib.suppress(WorkerDied):  # seen again when it is waited for
                crew.introduce(worker, self._lane, memory.blocks, plan, memory.message)
        memory.lines[:, ROW] = NO_ROW
        memory.lines[:, TAKEN] = 0
        self._lane.queue.offer(self._round, ranges)
        pickled = pickle.dumps(("rows", self._round, self._lane.number, plan), protocol=5)
        for worker in able:
            self._rung[worker] = worker.process
            with contextlib.suppress(WorkerDied):
                worker.post_pickled("rows", pickled)

    def _waiting(self) -> list[ExternalProcess]:
        """Workers that have neither answered nor died."""
        return [
            worker
            for worker, process in self._rung.items()
            if process.fallen is None and not worker.has_answer(self._round)
        ]

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
            if not came:
                self._look_for_hung()
        except BaseException as error:  # an interrupt: whoever runs rows would go on writing
            self._abort(error)
            raise
        return came

    def _look_for_hung(self) -> None:
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
            doing = "" if row == NO_ROW else f" at row {row}, action {self._action(row)},"
            found.append(str(worker.hung(seconds, doing)))
            worker.restart()
        numbers = tuple(worker.index for worker in hung)
        self._land(WorkerTimeout("\n".join(found), workers=numbers))

    def _row_of(self, worker: ExternalProcess) -> int:
        return self.progress_of(self._crew.workers.index(worker))

    def _settle_round(self) -> None:
        """Read the answers of a round that is over; run on what dead workers left."""
        try:
            deaths = self._judge_answers()
            if not deaths:
                if self._num_left:
                    took = 1e-9 * float(self._memory.lines[:, TAKEN].sum())
                    self._crew.note_cost(took, self._num_left, self._request.horizon)
                self._land(self._memory.results())
                return
            # If all of them died, ranges are left that nobody has claimed.
            self._lane.queue.discard()
            left = self._rows_left()
            self._blame(deaths, left)
            self._ring(_ranges(left))
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
        answers = [(*asked, asked[0].taken(self._round)) for asked in self._rung.items()]
        self._rung = {}
        for worker, process, answer in answers:
            if answer is None:
                assert process.fallen is not None
                deaths[worker] = process.fallen
            elif answer[0] == "too wide":
                excess = max(excess, answer[1])
            elif answer[0] == "error":
                errors.append((answer[1], worker.where))
            elif answer[1]:
                self._batch.own_infos.update(pickle.loads(answer[1]))
        if errors or excess:
            self._lane.queue.discard()
        if errors:
            # The lowest row speaks for all, so the message does not depend on timing alone.
            report, where = min(errors, key=lambda e: e[0].row if e[0].row is not None else -1)
            raise report.rebuild(where)
        if excess:
            raise StateTooWide(excess)
        return deaths

    def _blame(self, deaths: dict[ExternalProcess, WorkerDied], left: np.ndarray) -> None:
        """Count which rows were being run when their workers died.

        Args:
            deaths: the workers, and how they ended.
            left: rows that are not done.

        Raises:
            PoisonState: one of them was, twice.
            WorkerDied: the workers die, again and again, and no row gets done.
        """
        idle = len(left) == self._num_left
        self._num_left = len(left)
        for worker, death in deaths.items():
            row = self._row_of(worker)
            if row == NO_ROW or self._batch.done[row]:
                continue
            idle = False
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
        self._idle_rounds = self._idle_rounds + 1 if idle else 0
        if self._idle_rounds >= _MAX_IDLE_ROUNDS:
            raise next(iter(deaths.values()))

    def _action(self, row: int) -> Any:
        action = self._layout.action.join(tuple(a[row].copy() for a in self._batch.actions))
        return action[0] if self._request.horizon == 1 and self._layout.action.is_flat else action

    def _state(self, row: int) -> np.ndarray:
        slots = self._request.slots
        source = row if slots is None else int(slots.sources[row])
        state: np.ndarray = self._request.states[source].copy()
        return state

    def _rows_left(self) -> np.ndarray:
        """Rows that have to be run again from the caller's states."""
        left = ~self._batch.done
        left[list(self._batch.own_infos)] = False  # the answers with these infos have come
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
        if self._waiting() or self not in self._crew.flights:
            return
        for worker in self._rung:
            worker.taken(self._round)
        self._rung = {}
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


def _ranges(rows: np.ndarray) -> list[tuple[int, int]]:
    """Ranges that cover some rows.

    Single rows, so that one that kills its worker takes no other along; longer ranges if
    there are more rows than the queue can hold.
    """
    size = max(1, -(-len(rows) // MAX_RANGES))
    # Rows that lie between are done, and running them again gives the same.
    return [
        (int(rows[k]), int(rows[min(k + size, len(rows)) - 1]) + 1)
        for k in range(0, len(rows), size)
    ]

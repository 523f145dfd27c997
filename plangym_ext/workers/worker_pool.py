"""WorkerPool: equal workers, their shared memory, and the state of each."""

from __future__ import annotations

import contextlib
import math
import time
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from plangym_ext.arrays.storage import SharedBlock
from plangym_ext.core.rows import RowLayout
from plangym_ext.errors import WorkerDied
from plangym_ext.states.envelope import Envelope
from plangym_ext.workers.batch_layout import NO_ROW, BatchLayout
from plangym_ext.workers.pages import Pages
from plangym_ext.workers.processes.process import WorkerProcess
from plangym_ext.workers.protocol import (
    ForgetBlock,
    ForgetLayout,
    KnowLayout,
    OpenBlock,
    OpenQueue,
)
from plangym_ext.workers.row_queue import Arrivals, RowQueue, numbers
from plangym_ext.workers.scheduling import Scheduler
from plangym_ext.workers.worker_handle import WorkerHandle

#: Times that a worker may be started for one batch, on average.
_MAX_STARTS = 3
#: Layouts of batches that workers know at a time.
_MAX_LAYOUTS = 256


class Run(Protocol):
    """Protocol of a batch in flight, for its pool."""

    @property
    def abandoned(self) -> bool:
        """Whether the results will not be asked for."""

    def finish(self) -> None:
        """Complete the batch."""

    def reap(self) -> None:
        """Release it, if its workers are through with it."""

    def cancel(self, error: Exception) -> None:
        """End it with an error; all workers are gone."""

    def progress_of(self, worker: int) -> int:
        """Return the row that a worker, by its place in the pool, is running, or `NO_ROW`."""

    def stop_hung(self, hung: list[WorkerHandle], seconds: float | None) -> None:
        """End it with an error that names workers which hang, and replace those."""


class WorkerPool:
    """Equal workers with their shared memory, and what is known to each of them.

    Args:
        workers: with equal envs, all built.

    Attributes:
        arrivals: queues for them, and the one place that waits for what workers say.
        runs: batches that have begun and are not released.
        pages: memory for them.
        scheduler: how they are cut and waited for.
    """

    def __init__(self, workers: Iterable[WorkerHandle]) -> None:
        self.workers = list(workers)
        self.arrivals = Arrivals(self.workers)
        self.pages = Pages()
        self.runs: set[Run] = set()
        self.scheduler = Scheduler()
        #: Whether a batch has come to its end, and the seconds of the longest row, if it was long.
        self.has_run, self.slowest = False, 0.0
        #: Numbers of queues and layouts that all of these processes know, which are those of
        #: all workers. Emptied when a worker is replaced or something expires: then each
        #: process's own account (`WorkerProcess.known`) decides what it is told.
        self._told: set[int] = set()
        self._told_processes: list[WorkerProcess] = []
        #: By their contents.
        self._layouts: dict[tuple[Any, ...], BatchLayout] = {}
        self._numbers: weakref.WeakKeyDictionary[SharedBlock, int] = weakref.WeakKeyDictionary()
        #: Numbers of blocks that are gone; workers are told before their next batch.
        self._gone: list[int] = []

    # Batches --------------------------------------------------------------------

    def settle(self) -> None:
        """Complete every batch in flight; each stores its outcome."""
        for run in list(self.runs):
            # What went wrong is raised where its results are asked for.
            with contextlib.suppress(Exception):
                run.finish()

    def reap(self) -> None:
        """Release batches whose results will not be asked for, as far as they are done."""
        abandoned = [run for run in self.runs if run.abandoned]
        if abandoned:
            self.arrivals.pump(0.0)
            for run in abandoned:
                run.reap()

    def end_abandoned(self) -> None:
        """Wait for batches whose results will not be asked for, and release them."""
        self.reap()
        for run in [run for run in self.runs if run.abandoned]:
            with contextlib.suppress(Exception):
                run.finish()

    def batch_at(self, worker: WorkerHandle) -> Run | None:
        """Return the batch of which a worker is running a row, if it is."""
        index = self.workers.index(worker)
        for run in self.runs:
            if run.progress_of(index) != NO_ROW:
                return run
        return None

    def progress_of(self, worker: WorkerHandle) -> tuple[int, ...]:
        """Return a worker's progress counters in all batches; a change means that it is alive."""
        index = self.workers.index(worker)
        return tuple(run.progress_of(index) for run in self.runs)

    # What workers know ----------------------------------------------------------

    def number(self, block: SharedBlock) -> int:
        """Return the number that workers know a block by."""
        known = self._numbers.get(block)
        if known is None:
            known = self._numbers[block] = next(numbers)
            # A finalizer may run in the midst of anything, so it only notes the number.
            weakref.finalize(block, self._gone.append, known)
        return known

    def known(self, layout: BatchLayout) -> BatchLayout:
        """Return the layout with the number that workers know it by."""
        if layout.number in self._told:
            return layout
        content = layout.content
        found = self._layouts.get(content)
        if found is None:
            if len(self._layouts) >= _MAX_LAYOUTS:
                oldest = self._layouts.pop(next(iter(self._layouts)))
                self._expire(ForgetLayout(oldest.number))
            found = self._layouts[content] = layout._replace(number=next(numbers))
        return found

    def send_layout(
        self,
        workers: list[WorkerHandle],
        queue: RowQueue,
        blocks: Sequence[SharedBlock],
        layout: BatchLayout,
    ) -> bool:
        """Send the queue, the memory and the layout of a batch to workers that lack them.

        Args:
            workers: who, from `ready_workers`; those that are gone are left out.
            queue: that the batch has.
            blocks: in which its arrays lie.
            layout: its layout, from `known`.

        Returns:
            Whether there was something to tell.
        """
        while self._gone:
            self._expire(ForgetBlock(self._gone.pop()))
        told = self._told
        if workers is self.workers and queue.number in told and layout.number in told:
            return False
        news = False
        for worker in workers:
            with contextlib.suppress(WorkerDied):  # seen again when it is waited for
                news = self._tell(worker, queue, blocks, layout) or news
        if workers is self.workers:
            told.update((queue.number, layout.number))
        return news

    def _tell(
        self,
        worker: WorkerHandle,
        queue: RowQueue,
        blocks: Sequence[SharedBlock],
        layout: BatchLayout,
    ) -> bool:
        """Send one worker its missing and expired data; return whether there was any."""
        worker.describe()
        process, index = worker.process, self.workers.index(worker)
        news = bool(process.expired)
        # First, so that a worker lets go of memory before it maps more.
        while process.expired:
            worker.post(process.expired.pop())
        if queue.number not in process.known:
            news = True
            worker.post(OpenQueue(queue.number, index), queue.worker_fds)
            # After the post, here and below: a worker that was not reached is not held to know it.
            process.known.add(queue.number)
        for block in blocks:
            if (number := self.number(block)) not in process.known:
                news = True
                worker.post(OpenBlock(number, block.nbytes), (block.fd,))
                process.known.add(number)
        if layout.number not in process.known:
            news = True
            worker.post(KnowLayout(layout, index))
            process.known.add(layout.number)
        return news

    def _expire(self, message: ForgetBlock | ForgetLayout) -> None:
        """Note for every worker that knows something that it has to forget it."""
        self._told.clear()
        for worker in self.workers:
            if message.number in worker.process.known:
                worker.process.known.remove(message.number)
                worker.process.expired.append(message)

    def ready_workers(self) -> list[WorkerHandle]:
        """Return the workers whose env is built, at least one, which is waited for.

        Those that are gone are replaced.

        Raises:
            WorkerDied: they die while they build their envs, again and again.
            WorkerTimeout: none has built its env in time.
        """
        present = [worker.process for worker in self.workers if worker.process.fallen is None]
        complete = len(present) == len(self.workers)
        if complete and present == self._told_processes:
            return self.workers
        self._told, self._told_processes = set(), []
        if complete and all(worker.ready for worker in self.workers):
            self._told_processes = present
            return self.workers
        limit = self.workers[0].start_timeout
        deadline = math.inf if limit is None else time.monotonic() + limit
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
            left = None if limit is None else max(0.0, deadline - time.monotonic())
            self.arrivals.pump(0.0 if ready else left)
            ready = [worker for worker in self.workers if worker.ready]
            if ready:
                return ready
            if time.monotonic() >= deadline:
                raise self.workers[0].hung(limit)

    def close(self, error: Exception) -> None:
        """Release memory and queues, when all workers are closed.

        Args:
            error: the outcome of batches in flight.
        """
        for run in list(self.runs):
            run.cancel(error)
        self.arrivals.close()
        self.pages.close()


class BatchOwner(Protocol):
    """Protocol of the handle that owns a batch.

    Attributes:
        pool: whose workers run it.
        layout, envelope: of the rows, as wide as they are now.
        blocking: give all rows to one worker instead of sharing them.
        row_timeout: seconds after which a worker that has not got on counts as hung.
    """

    pool: WorkerPool
    layout: RowLayout
    envelope: Envelope
    blocking: bool
    row_timeout: float | None

    def check_open(self) -> None:
        """Refuse a batch if the handle is closed."""

    def widen(self, width: int) -> None:
        """Make room for states of `width` bytes, here and in every worker."""

    def wider(self, excess: int) -> int:
        """Return the width for states that need `excess` bytes more."""

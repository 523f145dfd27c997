"""WorkerPool: equal workers, their shared memory, and the state of each."""

from __future__ import annotations

import contextlib
import math
import select
import time
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

from plangym_ext.arrays.storage import SharedBlock
from plangym_ext.errors import WorkerDied
from plangym_ext.workers.batch_layout import BatchLayout
from plangym_ext.workers.batch_run import Runs
from plangym_ext.workers.limits import MAX_STARTS
from plangym_ext.workers.processes.process import WorkerProcess
from plangym_ext.workers.protocol import ForgetBlock, ForgetLayout, KnowLayout, OpenBlock, OpenQueue
from plangym_ext.workers.row_queue import RowQueue, numbers
from plangym_ext.workers.scheduling import Scheduler, spin
from plangym_ext.workers.worker_handle import WorkerHandle

#: Layouts of batches that workers know at a time.
_MAX_LAYOUTS = 256


class WorkerPool:
    """Equal workers with their shared memory, and the layouts and memory that each knows.

    Attributes:
        free_queues: queues that no batch uses.
        runs: batches that have begun and are not released.
        scheduler: how they are cut and waited for.
    """

    def __init__(self, workers: Iterable[WorkerHandle]) -> None:
        self.workers = list(workers)
        self.runs = Runs()
        self.free_queues: list[RowQueue] = []
        #: By the descriptor that reports are read from.
        self._queues: dict[int, RowQueue] = {}
        self._poller = select.poll()
        self._watched: dict[int, WorkerHandle] = {}
        self._watched_processes: list[WorkerProcess] = []
        self.scheduler = Scheduler()
        #: Whether a batch has come to its end, and the seconds of the longest row, if it was long.
        self.has_run, self.slowest = False, 0.0
        #: Numbers of queues and layouts that all of these processes know, which are those of
        #: all workers. Emptied when a worker is replaced or something expires: then each
        #: process's own account (`WorkerProcess.known`) decides what it is told.
        self.told: set[int] = set()
        self._told_processes: list[WorkerProcess] = []
        #: By their contents.
        self._layouts: dict[tuple[Any, ...], BatchLayout] = {}
        self._numbers: weakref.WeakKeyDictionary[SharedBlock, int] = weakref.WeakKeyDictionary()
        #: Numbers of blocks that are gone; workers are told before their next batch.
        self.gone: list[int] = []

    # Waiting --------------------------------------------------------------------

    def new_queue(self) -> RowQueue:
        """Return another queue, for a batch while none of `free_queues` is left."""
        queue = RowQueue()
        self._queues[queue.report_fd] = queue
        self._poller.register(queue.report_fd, select.POLLIN)
        return queue

    def pump(self, timeout: float | None, spinning: float = 0.0) -> bool:
        """Read reports and answers of all workers, and notice deaths.

        Args:
            timeout: seconds to wait for the first of them; None waits as long as it takes.
            spinning: seconds before those that are spent without going to sleep.

        Returns:
            Whether anything came.
        """
        # Some may have been replaced since the last time.
        processes = [worker.process for worker in self.workers if worker.process.fallen is None]
        if processes != self._watched_processes:
            self._watch(processes)
        events = spin(self._poller, spinning) if spinning else []
        if not events:
            events = self._poller.poll(None if timeout is None else timeout * 1000)
        for fd, _ in events:
            if (queue := self._queues.get(fd)) is not None:
                queue.hear()
                continue
            worker = self._watched.get(fd)
            if worker is None or worker.fallen is not None:
                continue
            if fd == worker.process.pidfd and not worker.process.channel.has_come():
                # A process that the env started may still hold the socket open.
                worker.death()
            else:
                worker.receive()
        return bool(events)

    def _watch(self, processes: list[WorkerProcess]) -> None:
        """Poll the workers of now."""
        self._poller = select.poll()
        for fd in self._queues:
            self._poller.register(fd, select.POLLIN)
        self._watched.clear()
        for worker in self.workers:
            if worker.fallen is None:
                for fd in worker.process.signs:
                    self._poller.register(fd, select.POLLIN)
                    self._watched[fd] = worker
        self._watched_processes = processes

    # What workers know ----------------------------------------------------------

    def number(self, block: SharedBlock) -> int:
        """Return the number that workers know a block by."""
        known = self._numbers.get(block)
        if known is None:
            known = self._numbers[block] = next(numbers)
            # A finalizer may run in the midst of anything, so it only notes the number.
            weakref.finalize(block, self.gone.append, known)
        return known

    def known(self, layout: BatchLayout) -> BatchLayout:
        """Return the layout with the number that workers know it by."""
        if layout.number in self.told:
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
        while self.gone:
            self._expire(ForgetBlock(self.gone.pop()))
        news = False
        for worker in workers:
            with contextlib.suppress(WorkerDied):  # seen again when it is waited for
                news = self._tell(worker, queue, blocks, layout) or news
        if workers is self.workers:
            self.told.update((queue.number, layout.number))
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
            # After the post, here and below: a worker that was not reached does not know it.
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
        self.told.clear()
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
        self.told, self._told_processes = set(), []
        if complete and all(worker.ready for worker in self.workers):
            self._told_processes = present
            return self.workers
        return self._started_workers()

    def _started_workers(self) -> list[WorkerHandle]:
        """Replace workers that are gone, and return those whose env is built, at least one."""
        limit = self.workers[0].start_timeout
        deadline = math.inf if limit is None else time.monotonic() + limit
        starts_left = MAX_STARTS * len(self.workers)
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
            self.pump(0.0 if ready else left)
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
        self.runs.cancel(error)
        self._watched.clear()
        for queue in self._queues.values():
            queue.close()
        self._queues.clear()
        self.free_queues.clear()

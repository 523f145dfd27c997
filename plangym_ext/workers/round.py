"""Round: the workers that take part in one offer of row ranges.

A worker that has claimed nothing has nothing to report. Only if something goes wrong or takes
long is each asked to finish: once all have replied or died, none runs rows of the round.
"""

from __future__ import annotations

import contextlib

from plangym_ext.errors import EnvClosed, WorkerDied
from plangym_ext.workers.channel import ChannelDamaged
from plangym_ext.workers.processes.process import WorkerProcess
from plangym_ext.workers.protocol import Finish, Reply
from plangym_ext.workers.row_queue import RowQueue
from plangym_ext.workers.worker_handle import REQUESTS, WorkerHandle


class Lost:
    """Placeholder for a reply that was announced and never came."""


LOST = Lost()


class Round:
    """Workers that may run rows of one offer.

    Args:
        queue: where the ranges are offered.

    Attributes:
        request: number of the round.
        asked: the workers, each with the process that it had: it may be replaced before the
            round is over.
        told: whether they were told something before; then all are heard in the end.
    """

    def __init__(self, queue: RowQueue) -> None:
        self._queue = queue
        self.request = -1
        self.asked: dict[WorkerHandle, WorkerProcess] = {}
        self.told = False
        #: Number of the request to finish the round, if that was made.
        self._finish: int | None = None

    def renew(self) -> None:
        """Begin a round that no worker takes part in yet."""
        self.asked, self.told, self._finish = {}, False, None
        self.request = next(REQUESTS)

    def ask(self, workers: list[WorkerHandle], *, told: bool) -> None:
        """Note that workers may run rows, from the offer that follows."""
        self.told = told
        for worker in workers:
            self.asked[worker] = worker.process
            worker.last_command = "rows"

    def waiting(self) -> list[WorkerHandle]:
        """Return workers that may be running rows; the round is over when there are none."""
        finish = self._finish
        if not self._queue.rows_left and finish is None:
            return []
        return [
            worker
            for worker, process in self.asked.items()
            if process.fallen is None and not (finish is not None and worker.has_answer(finish))
        ]

    def ask_to_finish(self) -> None:
        """Ask every worker for a reply after its last claimed row; once a round."""
        if self._finish is None:
            self._finish = next(REQUESTS)
            for worker, process in self.asked.items():
                if worker.process is process:
                    with contextlib.suppress(WorkerDied, EnvClosed):
                        worker.post(Finish(self._finish, self._queue.number), command="rows")

    def end(
        self, workers: list[WorkerHandle]
    ) -> list[tuple[WorkerHandle, WorkerProcess, Reply | Lost | None]]:
        """End a completed round, and return the workers' replies.

        Args:
            workers: of the pool, by number.

        Returns:
            Every worker with its process and reply, which is `LOST` if it has died with what it
            had to say; nothing if all went as usual.
        """
        asked, self.asked = self.asked, {}
        queue, finish = self._queue, self._finish
        if not (queue.rows_left or queue.speakers or finish is not None):
            return []
        speakers = [workers[index] for index in queue.speakers]
        found = []
        for worker, process in asked.items():
            # What it had to say was said before the report: it is in the channel.
            while worker in speakers and process.fallen is None:
                if worker.has_answer(self.request):
                    break
                if process.channel.has_come():
                    worker.receive()
                else:  # it has reported what it never sent
                    worker.damaged(ChannelDamaged("an answer that was announced is missing"))
            if finish is not None and process.fallen is None:
                worker.forget(finish)
            reply = worker.taken(self.request)
            lost = reply is None and worker in speakers
            found.append((worker, process, LOST if lost else reply))
        return found

"""RayJobs: the runs of a sweep as tasks of a Ray cluster."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plangym_ext.arrays.closing import Closing
from plangym_ext.core.files.whole_file import opened
from plangym_ext.errors import FolderBusy
from plangym_ext.run.experiments.queue import LOG, started_run
from plangym_ext.run.folder_lock import FolderLock
from plangym_ext.workers.limits import SLOW_LOOK, TASK_GRACE
from plangym_ext.workers.processors import default_n_workers
from plangym_ext.workers.ray.cluster import Driver, connection, processors_of_nodes, ray_module


class RayJobs(Closing):
    """Runs jobs on a Ray cluster that other programs may use as well.

    The folder of the sweep has to be one and the same for all machines.

    Args:
        address: of the cluster; as of `RayEnv`.
        processors: that each run takes.
        most: runs at a time; None for as many as there are processors for.
        imports: modules that each run imports first.

    Attributes:
        slots: runs at a time.

    Raises:
        MissingExtra: Ray is not installed.
    """

    def __init__(
        self,
        address: str | None,
        processors: int = 1,
        most: int | None = None,
        imports: Sequence[str] = (),
    ) -> None:
        connection.join(address)
        self._joined, self._imports = True, tuple(imports)
        nodes = [default_n_workers()] if connection.started else processors_of_nodes()
        room = max(1, sum(count // processors for count in nodes))
        self.slots = room if most is None else most
        # A cluster that was started for this counts no processors.
        taken = 0 if connection.started else processors
        self._remote = ray_module().remote(num_cpus=taken, max_retries=0)(run_job)

    def start(self, folder: Path, slot: int) -> RayJob:  # noqa: ARG002
        """See `Jobs`."""
        where = folder.resolve()
        ref = self._remote.remote(Driver.of_this_process().path, str(where), self._imports)
        return RayJob(ref, where)

    def close(self) -> None:
        """Leave the cluster; safe to call twice."""
        if self._joined:
            self._joined = False
            connection.leave()


class RayJob:
    """A Ray task that runs a job, with the methods of a process.

    Args:
        ref: of its exit status.
        folder: of the run.

    Attributes:
        returncode: exit status; negative if the task's process or machine died; None while it runs.
    """

    def __init__(self, ref: Any, folder: Path) -> None:
        self._ref, self._folder = ref, folder
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit status; None while it runs."""
        return self._status(0.0)

    def wait(self) -> int:
        """Wait until the task has ended; return the exit status."""
        status = self._status(None)
        assert status is not None
        return status

    def _status(self, timeout: float | None) -> int | None:
        ray = ray_module()
        if self.returncode is None and ray.wait([self._ref], timeout=timeout)[0]:
            try:
                self.returncode = int(ray.get(self._ref))
            except ray.exceptions.TaskCancelledError:
                self.returncode = -signal.SIGINT
            except ray.exceptions.RayTaskError as error:
                self._note(str(error))
                self.returncode = 1
            except ray.exceptions.RayError as error:  # its process or its machine
                self._note(str(error))
                self.returncode = -signal.SIGKILL
        return self.returncode

    def _note(self, text: str) -> None:
        """Write to the run's log what it could not write itself."""
        with contextlib.suppress(OSError), opened(self._folder / LOG, "a") as log:
            log.write(f"{text}\n")

    def send_signal(self, number: int, /) -> None:
        """End the run after its round for SIGINT; end it at once for other signals."""
        ray_module().cancel(self._ref, force=number != signal.SIGINT)


def run_job(path: Sequence[str], folder: str, imports: Sequence[str]) -> int:
    """Run a job in a process of its own; return its exit status. Called in the task.

    Args:
        path: module path of the driver.
        folder: of the run.
        imports: modules that it imports first.
    """
    where = Path(folder)
    _await_free(where)
    process = started_run(
        where, imports, environ={**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    )
    while True:
        # Ray cancels a task by an interrupt, which is seen between two instructions of Python.
        with contextlib.suppress(subprocess.TimeoutExpired):
            try:
                return process.wait(SLOW_LOOK)
            except KeyboardInterrupt:
                process.send_signal(signal.SIGINT)


def _await_free(folder: Path) -> None:
    """Wait while the run's process of before, whose task has died, ends."""
    deadline = time.monotonic() + TASK_GRACE
    while time.monotonic() < deadline:
        with contextlib.suppress(FolderBusy):
            FolderLock(folder).close()
            return
        time.sleep(0.1)

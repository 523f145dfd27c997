"""JobQueue: parallel run processes of a sweep, with retries after kills."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plangym_ext.arrays.closing import Closing
from plangym_ext.core.files.whole_file import opened
from plangym_ext.errors import FolderBusy
from plangym_ext.run.experiments.plan import Job
from plangym_ext.run.files import FolderLock, write_json
from plangym_ext.run.training.interrupts import interrupts_held
from plangym_ext.workers.limits import RUN_RETRIES, SLOW_LOOK, TASK_GRACE
from plangym_ext.workers.ray.cluster import Driver, connection, processors_of_nodes, ray_module
from plangym_ext.workers.scheduling import default_n_workers

#: Seconds between two looks at the processes.
_INTERVAL = 0.1

SETTINGS, LOG = "settings.json", "train.log"
# `-P`: a file of the current folder must not be imported for a module of the same name.
_PROGRAM = (sys.executable, "-P", "-m", "plangym_ext.run.experiments.job")


@dataclass
class Running:
    """A run in progress.

    Args:
        job: what is run.
        slot: its share of the machine, from 0.
        process: that runs it.
        tries: how often it was started in this queue.
    """

    job: Job
    slot: int
    process: subprocess.Popen[bytes] | RayJob
    tries: int = 1
    began: float = field(default_factory=time.monotonic)


class JobQueue:
    """Runs jobs, a limited number at a time, until all have ended.

    A run that a signal killed goes on from its checkpoint, twice at most. One that ended with
    an error is left, and the others go on.

    Args:
        folder: of the sweep; each job has its own in it.
        jobs: in the order in which they are started.
        where: they run; None for processes of this machine.
        processes: how many run at a time then, each on its share of the processors if there are
            enough.
        gpus: accelerators that are shared out; 0: runs see what this process sees.
        imports: modules that each run imports first.

    Attributes:
        saved: whether all runs had the time to save after Ctrl-C.
    """

    def __init__(
        self,
        folder: Path,
        jobs: Sequence[Job],
        *,
        where: LocalJobs | RayJobs | None = None,
        processes: int = 1,
        gpus: int = 0,
        imports: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self.waiting = list(jobs)
        self.running: list[Running] = []
        self.saved = False
        self._where = LocalJobs(processes, gpus, imports) if where is None else where

    def run(
        self,
        look: Callable[[], None],
        ended: Callable[[Job, int, float], None],
        interrupted: Callable[[], None] = lambda: None,
    ) -> None:
        """Run all jobs.

        Ctrl-C interrupts the runs, which save a checkpoint, waits for them, and raises
        KeyboardInterrupt; a second one kills them.

        Args:
            look: called now and then while they run.
            ended: called when a job has ended, with its exit status (negative: the signal that
                killed it the last time) and its seconds.
            interrupted: called at the first Ctrl-C, before the wait.
        """
        try:
            while self.waiting or self.running:
                with interrupts_held():
                    self._start()
                time.sleep(_INTERVAL)
                for one in self._gone():
                    ended(one.job, one.process.wait(), time.monotonic() - one.began)
                look()
        except KeyboardInterrupt:
            # All of them first, so that they save side by side.
            self._send(signal.SIGINT)
            interrupted()
            for one in self.running:
                one.process.wait()
            # Not reached if a second Ctrl-C ends the wait.
            self.saved = True
            raise
        finally:
            # Whatever has ended this loop, an error of `look` too: no run outlives its queue.
            self._send(signal.SIGKILL)
            for one in self.running:
                one.process.wait()

    def _start(self) -> None:
        """Fill the free slots."""
        free = sorted(set(range(self._where.slots)) - {one.slot for one in self.running})
        for slot in free[: len(self.waiting)]:
            job = self.waiting.pop(0)
            folder = self.folder / job.name
            folder.mkdir(parents=True, exist_ok=True)
            # Before the process, which reads it.
            write_json(folder / SETTINGS, job.settings)
            self.running.append(Running(job, slot, self._where.start(folder, slot)))

    def _gone(self) -> list[Running]:
        """Return jobs that have ended; restart those killed by a signal."""
        gone = []
        for one in self.running:
            status = one.process.poll()
            if status is None:
                continue
            # Killed by a signal, such as that of a full memory. An error of its own would come
            # again.
            if status < 0 and one.tries <= RUN_RETRIES:
                with interrupts_held():
                    one.process = self._where.start(self.folder / one.job.name, one.slot)
                one.tries += 1
                continue
            gone.append(one)
        self.running = [one for one in self.running if one not in gone]
        return gone

    def _send(self, number: int) -> None:
        for one in self.running:
            if one.process.poll() is None:
                one.process.send_signal(number)


class LocalJobs:
    """Runs `slots` jobs at a time, in processes of this machine; see `JobQueue`."""

    def __init__(self, processes: int, gpus: int, imports: Sequence[str]) -> None:
        self.slots = processes
        self._cores = _shares(processes)
        self._gpus, self._imports = gpus, imports

    def start(self, folder: Path, slot: int) -> subprocess.Popen[bytes]:
        """Start the run whose settings lie in a folder."""
        environ = dict(os.environ)
        if self._gpus:
            environ["CUDA_VISIBLE_DEVICES"] = str(slot % self._gpus)
        return started_run(folder, self._imports, self._cores[slot], environ)


def started_run(
    folder: Path, imports: Sequence[str], cores: str = "", environ: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start the process of a run, which ends with this one and writes into `LOG`.

    Args:
        folder: of the run, with its settings.
        imports: modules that it imports first.
        cores: processors that it may use, with commas between them; empty: all.
        environ: its environment; None for that of this process.
    """
    train = ["train", str(folder / SETTINGS), "--out", str(folder), "--resume", "--quiet"]
    for module in imports:
        train += ["--import", module]
    # Appended: a run that is started again leaves what the first try said before it was killed.
    with opened(folder / LOG, "ab") as log:
        return subprocess.Popen(
            [*_PROGRAM, str(os.getpid()), cores, *train],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environ,
            # Ctrl-C in a terminal is for us: a run that gets it twice saves nothing.
            process_group=0,
        )


def _shares(processes: int) -> list[str]:
    """Return the processors of each slot, with commas between them; empty: all."""
    if not hasattr(os, "sched_getaffinity"):
        return [""] * processes
    # Not `cpu_count`: a container or `taskset` may leave this process fewer.
    usable = sorted(os.sched_getaffinity(0))
    if processes == 1 or processes > len(usable):
        return [""] * processes
    # Dealt out one by one, so that shares differ by one at most.
    return [",".join(map(str, usable[slot::processes])) for slot in range(processes)]


# RayJobs: the runs of a sweep as tasks of a Ray cluster -----------------------


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
        """Start the run whose settings lie in a folder."""
        where = folder.resolve()
        ref = self._remote.remote(Driver.of_this_process().path, str(where), self._imports)
        return RayJob(ref, where)

    def close(self) -> None:
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
    """Run a job in a process of its own; return its exit status. Called in the task."""
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

"""Runs side by side, each a process: started, watched, started again after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from plangym_ext.run.experiments.plan import Job
from plangym_ext.run.files import write_json

#: Seconds between two looks at the processes.
_INTERVAL = 0.1
#: Times that a run is started again after a signal killed it, such as that of a full memory.
RETRIES = 2

SETTINGS, LOG = "settings.json", "train.log"
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
    process: subprocess.Popen[bytes]
    tries: int = 1
    began: float = field(default_factory=time.monotonic)


class JobQueue:
    """Runs jobs, so many at a time, until all have ended.

    A run that a signal killed goes on from its checkpoint, twice at most. One that ended with
    an error is left, and the others go on.

    Args:
        folder: of the sweep; each job has its own in it.
        jobs: in the order in which they are started.
        processes: how many run at a time, each on its share of the processors if there are
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
        processes: int = 1,
        gpus: int = 0,
        imports: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self.waiting = list(jobs)
        self.running: list[Running] = []
        self.saved = False
        self._cores = _shares(processes)
        self._gpus, self._imports = gpus, tuple(imports)

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
                self._start()
                time.sleep(_INTERVAL)
                for one in self._gone():
                    ended(one.job, one.process.returncode, time.monotonic() - one.began)
                look()
        except KeyboardInterrupt:
            self._send(signal.SIGINT)
            interrupted()
            for one in self.running:
                one.process.wait()
            self.saved = True
            raise
        finally:
            self._send(signal.SIGKILL)
            for one in self.running:
                one.process.wait()

    def _start(self) -> None:
        """Fill the free slots."""
        free = sorted(set(range(len(self._cores))) - {one.slot for one in self.running})
        for slot in free[: len(self.waiting)]:
            job = self.waiting.pop(0)
            folder = self.folder / job.name
            folder.mkdir(parents=True, exist_ok=True)
            write_json(folder / SETTINGS, job.settings)
            self.running.append(Running(job, slot, self._process(job, slot)))

    def _process(self, job: Job, slot: int) -> subprocess.Popen[bytes]:
        folder = self.folder / job.name
        environ = dict(os.environ)
        if self._gpus:
            environ["CUDA_VISIBLE_DEVICES"] = str(slot % self._gpus)
        train = ["train", str(folder / SETTINGS), "--out", str(folder), "--resume", "--quiet"]
        for module in self._imports:
            train += ["--import", module]
        with (folder / LOG).open("ab") as log:
            return subprocess.Popen(
                [*_PROGRAM, str(os.getpid()), self._cores[slot], *train],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environ,
                # Ctrl-C in a terminal is for us: a run that gets it twice saves nothing.
                process_group=0,
            )

    def _gone(self) -> list[Running]:
        """Return what has ended for good; start again what a signal killed."""
        gone = []
        for one in self.running:
            status = one.process.poll()
            if status is None:
                continue
            if status < 0 and one.tries <= RETRIES:
                one.process, one.tries = self._process(one.job, one.slot), one.tries + 1
                continue
            gone.append(one)
        self.running = [one for one in self.running if one not in gone]
        return gone

    def _send(self, number: int) -> None:
        for one in self.running:
            if one.process.poll() is None:
                one.process.send_signal(number)


def _shares(processes: int) -> list[str]:
    """Return the processors of each slot, with commas between them; empty: all."""
    if not hasattr(os, "sched_getaffinity"):
        return [""] * processes
    usable = sorted(os.sched_getaffinity(0))
    if processes == 1 or processes > len(usable):
        return [""] * processes
    return [",".join(map(str, usable[slot::processes])) for slot in range(processes)]

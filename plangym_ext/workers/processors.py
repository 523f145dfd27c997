"""Default number of workers, and the estimate whether workers pay off."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import sys
from pathlib import Path

from plangym_ext.core.own_process import usable_processors

#: Seconds that a batch costs on its way to workers and back, whatever its size, and each of
#: its rows. Source: empty rows on two workers, `tests/benchmarks/step_batch.py`.
BATCH_SECONDS = 30e-6
ROW_SECONDS = 0.5e-6
#: Workers take time to start and memory to live in: what they save must be so many times
#: what they cost. Then 8 rows are given to two workers from 17 us a step on, where either way
#: takes as long, within the noise, from 10 to 20 us, and 32 rows are faster there from 5 us on.
LEAST_GAIN = 2.0
#: Rows of a small batch: a wave of a tree search.
WAVE = 8

#: Main modules of workers.
_WORKERS = (
    "plangym_ext.workers.processes.program",
    "plangym_ext.workers.processes.fork_server_program",
)


def default_n_workers() -> int:
    """Return how many processors this process may use.

    Those of its affinity, and no more than its control groups give it time on.
    """
    granted = _granted(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))
    return max(1, math.ceil(min(usable_processors(), granted)))


def _granted(groups: Path, mounted: Path) -> float:
    """Return the processors that the control groups of this process allow; inf for any number.

    Args:
        groups: lists the groups, as `/proc/self/cgroup` does.
        mounted: where they are mounted.
    """
    found = math.inf
    try:
        lines = groups.read_text().splitlines()
    except OSError:
        return found
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = mounted / "cpu" if controllers else mounted
        # A group's limit holds for those inside of it too. In a container only the root is seen.
        parts = Path(path.lstrip("/")).parts
        for depth in range(len(parts) + 1):
            found = min(found, _limit(root.joinpath(*parts[:depth])))
    return found


def _limit(group: Path) -> float:
    """Return the processors that one control group allows, of version 2 or 1."""
    with contextlib.suppress(OSError, ValueError):
        quota, period = (group / "cpu.max").read_text().split()
        return math.inf if quota == "max" else int(quota) / int(period)
    with contextlib.suppress(OSError, ValueError):
        micros = int((group / "cpu.cfs_quota_us").read_text())
        every = int((group / "cpu.cfs_period_us").read_text())
        return micros / every if micros > 0 else math.inf
    return math.inf


def workers_pay(row_seconds: float, rows: int, n_workers: int) -> bool:
    """Return whether workers finish batches clearly sooner than this process.

    Args:
        row_seconds: of one row, here.
        rows: in a batch.
        n_workers: how many there would be.
    """
    sharing = min(n_workers, rows)
    saved = rows * row_seconds * (1 - 1 / sharing)
    return saved > LEAST_GAIN * (BATCH_SECONDS + rows * ROW_SECONDS)


def is_subprocess() -> bool:
    """Return whether this is a worker process, whose siblings use the processors."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return multiprocessing.parent_process() is not None or getattr(spec, "name", "") in _WORKERS

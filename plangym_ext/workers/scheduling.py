"""Scheduler: sizes of row ranges and spin-waiting, from measured batch costs.

What batches have cost decides both. Each number here was measured; see docs/architecture.md.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import multiprocessing
import os
import select
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from plangym_ext.core.one_caller import usable_processors
from plangym_ext.workers.row_queue import MAX_RANGES, Ranges, Report

#: Seconds that a step is expected to cost before one was seen.
_USUAL_STEP = 30e-6
#: Seconds for which it is worth spinning for a batch that should end within them.
_SPIN = 2e-3
#: Seconds for which a worker spins for the next batch: at least, whatever was done before, and
#: at most.
_LEAST_SPIN, _MOST_SPIN = 250e-6, 500e-6
#: Share of a batch's time until its end is noticed; above it, others want the processor.
_LATE = 0.25
#: Weight of the last batch in running means, and its reduction of an excess and a delay.
_NEW, _FORGOTTEN = 0.2, 0.05

#: A range is worth claiming if it takes this long: some five times what the claim costs.
_LEAST_SECONDS = 100e-6
#: A batch that takes no longer than this is not shared: a second worker would be under way
#: only when the first is done.
_ALONE_SECONDS = 50e-6
#: Bounds of the times by which a share may exceed what it should be. Something is always
#: kept back, for workers do not begin together; and single rows that cost much more are no
#: reason to cut all the others more finely.
_LEAST_UNEVEN, _MOST_UNEVEN = 9 / 8, 3.0


class Schedule(NamedTuple):
    """Ranges and waiting time of one batch.

    Attributes:
        ranges: that its rows are cut into, `(first, stop)`; not to be written to.
        row_seconds: what a row is expected to cost a worker.
        spin: seconds for which to wait for it without going to sleep.
    """

    ranges: Ranges
    row_seconds: float
    spin: float


class Scheduler:
    """Measured costs of a pool's batches, and the schedule of the next.

    Attributes:
        excess: by how much one range took longer than usual, as a part of the time that all
            workers took for its batch; None as long as nothing is usual.
    """

    def __init__(self) -> None:
        self.excess: float | None = None
        self._step_seconds: float | None = None
        self._late = 0.0

    def schedule(self, num_rows: int, horizon: int, num_workers: int) -> Schedule:
        """Return how to run B rows of H actions on some workers."""
        step = self._step_seconds
        seconds = horizon * (_USUAL_STEP if step is None else step)
        ranges = split_rows(num_rows, num_workers, seconds, self.excess)
        # Spin only on an idle processor: a spinner that yields is rescheduled late, where one
        # that sleeps is woken at once.
        spins = seconds * num_rows / num_workers < _SPIN and self._late < _LATE
        return Schedule(ranges, seconds, _SPIN if spins else 0.0)

    def note(self, reports: Sequence[Report], num_steps: int, noticed: int) -> None:
        """Record the cost of a batch.

        Args:
            reports: of all workers that ran rows of it.
            num_steps: of all rows.
            noticed: when that was seen, in `time.monotonic_ns()`.
        """
        taken = sum([report.taken for report in reports])
        if not taken:  # a clock too coarse to see it
            return
        ended = max([report.ended for report in reports])
        late = (noticed - ended) * len(reports) / taken
        # Here and below: more at once, less slowly.
        self._late = max(min(late, 1.0), self._late + _FORGOTTEN * (min(late, 1.0) - self._late))
        step = 1e-9 * taken / num_steps
        if self._step_seconds is None:
            self._step_seconds = step
            return
        self._step_seconds += _NEW * (step - self._step_seconds)
        excess = max([report.excess for report in reports]) / taken
        known = excess if self.excess is None else self.excess
        self.excess = max(excess, known + _FORGOTTEN * (excess - known))


# Spinning ---------------------------------------------------------------------------


def spin(poller: select.poll, seconds: float) -> list[tuple[int, int]]:
    """Return a poller's events, after spinning for at most some seconds.

    To be woken costs tens of microseconds, and on a busy machine the system may run the
    woken end in place of the one that wakes it. Others that want the processor get it in
    between.
    """
    deadline = time.monotonic() + seconds
    while not (events := poller.poll(0)) and time.monotonic() < deadline:
        os.sched_yield()
    return events


class SpinWait:
    """Spins if the wait before was short.

    In a loop of batches it is. A parent that computes for longer than the batch took needs
    the processors meanwhile: threads that wait for each other, as those of torch, get nowhere
    beside others that spin.
    """

    def __init__(self, poller: select.poll) -> None:
        self._poller = poller
        self._soon = True

    def wait(self, worked: float) -> list[tuple[int, int]]:
        """Return at least one event of the poller.

        Args:
            worked: seconds that were worked since the last wait.
        """
        patience = min(max(_LEAST_SPIN, worked), _MOST_SPIN)
        began = time.monotonic()
        events = spin(self._poller, patience) if self._soon else []
        events = events or self._poller.poll()
        self._soon = time.monotonic() - began < patience
        return events


# Cutting ----------------------------------------------------------------------------


def split_rows(
    num_rows: int, num_workers: int, row_seconds: float, excess: float | None = None
) -> Ranges:
    """Cut rows into ranges `(first, stop)`, larger ones first.

    Rounds of one range for each worker, equal ones, each round with a share of what is left
    (factoring, Flynn Hummel, Schonberg & Flynn 1992). The share is such that a worker whose
    range takes longer than usual, by as much as was seen, is done with it when all have had
    their part. A range takes at least `_LEAST_SECONDS`: a claim costs about as much as
    stepping a light env. A batch that is too light for that is cut into equal parts.

    Args:
        num_rows: B.
        num_workers: how many will claim ranges.
        row_seconds: what a row is expected to cost.
        excess: by how much one range may take longer than usual, as a part of the time that
            all workers take together; None if it is not known.
    """
    if num_workers == 1 or num_rows < 2 or num_rows * row_seconds <= _ALONE_SECONDS:
        return [(0, num_rows)] if num_rows else []
    # A row that takes no time at all makes any range too small.
    share = min(num_rows, _LEAST_SECONDS / max(row_seconds, _LEAST_SECONDS / num_rows))
    smallest = max(math.ceil(share), -(-num_rows // (MAX_RANGES // 2)))
    # Of the whole, a worker's share is 1/W; a first range with the excess is to be no more.
    apart = 0.0 if excess is None else max(1 - num_workers * excess, 0.0)
    eighths = round(8 / apart) if apart > 1 / _MOST_UNEVEN else round(8 * _MOST_UNEVEN)
    return _cut(num_rows, num_workers, smallest, eighths)


@functools.lru_cache(256)
def _cut(num_rows: int, num_workers: int, smallest: int, eighths: int) -> Ranges:
    """Cut rounds, each a share of what is left over `eighths / 8`; not to be written to."""
    if num_rows <= 3 * num_workers * smallest:
        return _equal_parts(0, num_rows, num_workers)
    uneven = max(eighths / 8, _LEAST_UNEVEN)
    ranges: Ranges = []
    first = 0
    while first < num_rows:
        left = num_rows - first
        stop = first + num_workers * max(smallest, int(left / (uneven * num_workers)))
        if num_rows - stop < smallest:
            stop = num_rows
        ranges += _equal_parts(first, stop, num_workers)
        first = stop
    return ranges


def _equal_parts(first: int, stop: int, count: int) -> Ranges:
    """Return at most `count` ranges, as long as each other or one longer."""
    count = min(count, stop - first)
    edges = [first + (stop - first) * k // count for k in range(count + 1)]
    return list(itertools.pairwise(edges))


def ranges_of(rows: np.ndarray) -> Ranges:
    """Return ranges that cover some rows, `[n]` int64 in order.

    Each is a single row, so that one that kills its worker takes no other along; ranges are
    longer if there are more rows than the queue can hold.
    """
    size = max(1, -(-len(rows) // MAX_RANGES))
    # Rows that lie between are done, and running them again gives the same.
    return [
        (int(rows[k]), int(rows[min(k + size, len(rows)) - 1]) + 1)
        for k in range(0, len(rows), size)
    ]


# Choice of the number of workers ----------------------------------------------


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
    """Return the default number of workers: the processors that this process may use.

    Those of its affinity, and no more than its control groups give it time on.
    """
    granted = _granted(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))
    return max(1, math.ceil(min(usable_processors(), granted)))


def _granted(groups: Path, mounted: Path) -> float:
    """Return the processors that the control groups of this process allow; inf for any number."""
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
    """Return whether workers finish batches clearly sooner than this process."""
    sharing = min(n_workers, rows)
    saved = rows * row_seconds * (1 - 1 / sharing)
    return saved > LEAST_GAIN * (BATCH_SECONDS + rows * ROW_SECONDS)


def is_subprocess() -> bool:
    """Return whether this is a worker process, whose siblings use the processors."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return multiprocessing.parent_process() is not None or getattr(spec, "name", "") in _WORKERS


def chosen_workers(
    seconds: float | None, render_mode: str | None, target: Any, rows: int
) -> tuple[int | None, str]:
    """Choose between workers and this process by the cost of a step.

    Results are the same either way, so two runs may choose differently.

    Args:
        seconds: what a step costs, as noted when states were proved to be exact; None if they
            were not.
        render_mode: of the env.
        target: what makes it: a name, a class, or another callable.
        rows: of a small batch, for which workers have to be worth it.

    Returns:
        The number of workers, None for none; and the reason.
    """
    n_workers = default_n_workers()
    refused = _refusal(seconds, render_mode, target)
    if refused or seconds is None:
        return None, refused
    cost = f"a step takes about {_shown(seconds)}"
    if workers_pay(seconds, rows, n_workers):
        return n_workers, f"{n_workers} worker processes, as {cost}"
    return None, f"no worker processes, as {cost}"


def proved_seconds(env: Any) -> float | None:
    """Return a serial env's step time, if its states were proved exact."""
    seconds: float | None = env.step_seconds
    return seconds if env.exact else None


def _refusal(seconds: float | None, render_mode: str | None, target: Any) -> str:
    """Return why the env has to stay in this process; "" if it may run in workers."""
    if is_subprocess():
        return "no worker processes, as this is one itself"
    if default_n_workers() == 1:
        return "no worker processes, as there is one processor"
    if render_mode == "human":
        return "no worker processes, as each would open a window"
    if seconds is None:
        return "no worker processes, as its states are not proved to be exact"
    if not _is_importable(target):
        return (
            "no worker processes, as workers cannot import what makes the env: they would get a "
            "copy, which shares no object with this process; n_workers=N starts them all the same"
        )
    return ""


def _is_importable(target: Any) -> bool:
    """Return whether a worker finds what makes an env by its name, as it is here.

    A function may hold objects of this process, of which a worker would have copies.
    """
    if isinstance(target, functools.partial):
        target = target.func
    if isinstance(target, str):
        return target.partition(":")[0] != "__main__"
    # The `__main__` of a worker is the worker program.
    if not isinstance(target, type) or target.__module__ == "__main__":
        return False
    found: Any = sys.modules.get(target.__module__)
    # A class of a function's own has "<locals>" in its name, under which nothing is found.
    for name in target.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is target


def _shown(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds > 1e-3 else f"{seconds * 1e6:.0f} us"

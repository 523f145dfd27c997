"""Choice of the number of workers, by processors and by the cost of a step."""

from __future__ import annotations

import contextlib
import functools
import math
import multiprocessing
import sys
from pathlib import Path
from typing import Any

from plangym_ext.core.one_caller import usable_processors

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


def chosen_workers(
    seconds: float | None, render_mode: str | None, target: Any, rows: int
) -> tuple[int | None, str]:
    """Choose between workers and this process by the cost of a step.

    Results are the same either way, so that it is no matter if two runs choose differently.

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
            "no worker processes, as workers cannot import what makes the env, and copies of it "
            "would not share its objects with this process; n_workers=N starts them all the same"
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

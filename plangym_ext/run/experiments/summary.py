"""Result table of a sweep: one line per variant, best first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from plangym_ext.core.files.whole_file import opened
from plangym_ext.run.bootstrap import known_interval
from plangym_ext.run.experiments.plan import DONE, Job, outcome
from plangym_ext.run.logs.runs import read_run

_TAIL = 8192  # bytes


class Score(NamedTuple):
    """Result of a variant, over its finished runs.

    Args:
        variant: its name.
        values: final return of each run.
        mean: of them.
        low: lower end of the mean's 95 % bootstrap interval; None of a single run.
        high: upper end.
    """

    variant: str
    values: list[float]
    mean: float
    low: float | None
    high: float | None


def final_return(folder: Path) -> float | None:
    """Return the last evaluation's mean return, or that of the last training episodes.

    None: the run has no return yet.
    """
    if not (folder / "progress.csv").exists():
        return None
    columns = read_run(folder).columns
    for name in ("eval/return", "recent/return", "return"):  # a log of one's own may lack some
        values = columns.get(name, np.zeros(0))
        values = values[np.isfinite(values)]
        if len(values):
            return float(values[-1])
    return None


def share_done(job: Job, folder: Path) -> float:
    """Return the logged share of a run, 0 to 1."""
    path = folder / job.name / "progress.csv"
    if not path.exists():
        return 0.0
    with opened(path) as file:
        names = file.readline().strip().split(b",")
        # One row is shorter than this.
        file.seek(max(file.tell(), path.stat().st_size - _TAIL))
        last = [b"", *file.read().split(b"\n")][-2]
    # By rounds, as how many steps the whole run takes is not known of every kind.
    cell = dict(zip(names, last.split(b","), strict=False)).get(b"round", b"")
    return min(1.0, int(cell) / job.rounds) if cell.isdigit() else 0.0


def scores(folder: Path, jobs: Sequence[Job]) -> list[Score]:
    """Return the variants with a finished run, the best first."""
    values: dict[str, list[float]] = {}
    for job in jobs:
        found = final_return(folder / job.name) if outcome(folder / job.name) == DONE else None
        if found is not None:
            values.setdefault(job.variant, []).append(found)
    rows = [Score(name, own, *known_interval(own)) for name, own in values.items()]
    return sorted(rows, key=lambda row: -row.mean)


def lines(rows: Sequence[Score]) -> list[str]:
    """Return the printed table."""
    width = max([len(row.variant) for row in rows] + [7])
    found = [f"{'variant':<{width}}  runs     return  95 % interval"]
    for row in rows:
        name = row.variant or "-"
        ends = "-" if row.low is None else f"{row.low:.6g} to {row.high:.6g}"
        found.append(f"{name:<{width}}  {len(row.values):>4}  {row.mean:>9.6g}  {ends}")
    return found

"""Aggregation of learning curves over seeds: mean or interquartile mean with a band."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.run.bootstrap import STATISTICS, mean_interval

Floats = npt.NDArray[np.float64]

BANDS = ("bootstrap", "std", "none")


class Curve(NamedTuple):
    """A mean curve over runs, `[points]` each."""

    x: Floats
    mean: Floats  # or what the statistic is
    low: Floats
    high: Floats
    seeds: npt.NDArray[np.int64]  # runs that a point is of


def aggregated(
    runs: Sequence[tuple[Floats, Floats]],
    band: str,
    statistic: str = "mean",
    *,
    smooth: int = 1,
    points: int | None = None,
) -> Curve:
    """Return the mean of some curves, at their common steps.

    Between two points of a run it is interpolated; before its first and after its last
    it does not count. Points without a number are left out.

    Args:
        runs: (x, y) each; x need not be sorted.
        band: "bootstrap" for the 95 % interval of the statistic, "std" for one standard
            deviation on either side, "none".
        statistic: "mean", or "iqm": the mean of the middle half.
        smooth: points of a run whose mean stands for each, the last of them.
        points: at most; None: every x that one of the runs has.
    """
    clean = [_clean(x, y) for x, y in runs]
    clean = [(x, _smoothed(y, smooth)) for x, y in clean if len(x)]
    if not clean:
        nothing = np.zeros(0)
        return Curve(nothing, nothing, nothing, nothing, np.zeros(0, np.int64))
    grid = np.unique(np.concatenate([x for x, _ in clean]))
    if points is not None and len(grid) > points:
        grid = np.linspace(grid[0], grid[-1], points)
    # Left to itself `np.interp` holds the last value: a run that has ended would go on for ever.
    table = np.array([np.interp(grid, x, y, left=np.nan, right=np.nan) for x, y in clean])
    columns = [values[np.isfinite(values)] for values in table.T]
    # Between two runs that do not overlap an even grid has points of none.
    there = np.array([len(values) > 0 for values in columns])
    found = [_point(values, band, statistic) for values in columns if len(values)]
    count = np.array([len(values) for values in columns], np.int64)
    middle, low, high = np.array(found).T
    return Curve(grid[there], middle, low, high, count[there])


def _clean(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    there = np.isfinite(x) & np.isfinite(y)
    # `np.interp` takes ascending x, and does not say so if they are not.
    order = np.argsort(x[there], kind="stable")
    return x[there][order], y[there][order]


def _smoothed(y: Floats, window: int) -> Floats:
    """Return for each point the mean of the last `window` ones, of fewer at the beginning."""
    if window <= 1:
        return y
    # Sums bear this, as `_clean` has dropped what is no number: one would spoil all after it.
    sums = np.concatenate([[0.0], np.cumsum(y)])
    ends = np.arange(1, len(y) + 1)
    begins = np.maximum(0, ends - window)
    found: Floats = (sums[ends] - sums[begins]) / (ends - begins)
    return found


def _point(values: Floats, band: str, statistic: str) -> tuple[float, float, float]:
    """Return the middle and the ends of the band at one x."""
    if band == "bootstrap" and len(values) > 1:
        return mean_interval(values.tolist(), statistic=statistic)
    # Of a single run "bootstrap" has nothing to draw from again: its band has no width.
    middle = float(STATISTICS[statistic](values[None])[0])
    spread = float(values.std()) if band == "std" else 0.0
    return middle, middle - spread, middle + spread

"""Curves of several seeds as one: a mean and a band around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.run.bootstrap import mean_interval

Floats = npt.NDArray[np.float64]


class Curve(NamedTuple):
    """A mean over runs, `[points]` each."""

    x: Floats
    mean: Floats
    low: Floats
    high: Floats


def aggregated(runs: Sequence[tuple[Floats, Floats]], band: str) -> Curve:
    """Return the mean of some curves at every x that one of them has.

    Between two points of a run it is interpolated; before its first and after its last
    it does not count. Points without a number are left out.

    Args:
        runs: (x, y) each; x need not be sorted.
        band: "bootstrap" for the 95 % interval of the mean, "std" for one standard
            deviation on either side, "none".
    """
    clean = [_clean(x, y) for x, y in runs]
    clean = [(x, y) for x, y in clean if len(x)]
    if not clean:
        return Curve(*[np.zeros(0)] * 4)
    grid = np.unique(np.concatenate([x for x, _ in clean]))
    table = np.array([np.interp(grid, x, y, left=np.nan, right=np.nan) for x, y in clean])
    points = [_point(values[np.isfinite(values)], band) for values in table.T]
    return Curve(grid, *np.array(points).T)


def _clean(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    there = np.isfinite(x) & np.isfinite(y)
    order = np.argsort(x[there], kind="stable")
    return x[there][order], y[there][order]


def _point(values: Floats, band: str) -> tuple[float, float, float]:
    """Return mean and ends of the band at one x."""
    mean = float(values.mean())
    if band == "none" or len(values) == 1:
        return mean, mean, mean
    if band == "std":
        return mean, mean - float(values.std()), mean + float(values.std())
    return mean_interval(values.tolist())

"""Bootstrap confidence intervals of means and of differences of means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

#: Share of the resampled means that lie inside an interval.
_LEVEL = 0.95
#: Resamples of an interval; its ends then move by about a hundredth of its width.
RESAMPLES = 10_000


def means(rows: Floats) -> Floats:
    """Return the mean of each row, `[n]` fresh, of rows `[n, values]`."""
    found: Floats = rows.mean(axis=1)
    return found


def interquartile_means(rows: Floats) -> Floats:
    """Return the mean of each row without its lowest and its highest quarter, `[n]` fresh.

    A quarter is rounded down: of fewer than four values it is the mean of all.

    Args:
        rows: `[n, values]`.

    Source: Agarwal et al. 2021, "Deep reinforcement learning at the edge of the statistical
    precipice".
    """
    count = rows.shape[1]
    cut = count // 4
    found: Floats = np.sort(rows, axis=1)[:, cut : count - cut].mean(axis=1)
    return found


#: Name -> what it makes of rows.
STATISTICS = {"mean": means, "iqm": interquartile_means}


def ends(resampled: Floats) -> tuple[Any, Any]:
    """Return the ends of the intervals of statistics `[R, ...]` of R resamples, each `[...]`."""
    low, high = np.quantile(resampled, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2], axis=0)
    return low, high


def mean_interval(
    values: Sequence[float], *, statistic: str = "mean"
) -> tuple[float, float, float]:
    """Return a mean and the ends of its percentile bootstrap interval.

    Args:
        values: at least one.
        statistic: which mean, a key of `STATISTICS`.

    Source: Efron 1979, "Bootstrap methods: another look at the jackknife".
    """
    data = np.asarray(values, np.float64)
    # A generator of its own: the same values have the same interval on every page.
    drawn = np.random.default_rng(0).integers(len(data), size=(RESAMPLES, len(data)))
    found = STATISTICS[statistic](data[drawn])
    # The percentile interval: quantiles of the resampled means themselves.
    low, high = ends(found)
    # Of the values themselves: the mean of the resamples differs from it by what was drawn.
    return float(STATISTICS[statistic](data[None])[0]), float(low), float(high)


def known_interval(values: Sequence[float]) -> tuple[float, float | None, float | None]:
    """Return the mean and its interval; the ends are None for a single value."""
    mean, low, high = mean_interval(values)
    return (mean, low, high) if len(values) > 1 else (mean, None, None)


def unpaired_interval(
    first: Sequence[float], second: Sequence[float]
) -> tuple[float, float, float]:
    """Return the mean of `second` minus that of `first`, and the ends of its interval.

    The two are resampled apart, as if they had nothing in common. Of pairs, `mean_interval` of
    their differences is the interval: it is the narrower the more the two have in common.
    """
    # One for both: two of the same seed would draw the same places, which are pairs.
    rng = np.random.default_rng(0)
    found = []
    for values in (second, first):
        data = np.asarray(values, np.float64)
        found.append(data[rng.integers(len(data), size=(RESAMPLES, len(data)))].mean(axis=1))
    low, high = ends(found[0] - found[1])
    return float(np.mean(second) - np.mean(first)), float(low), float(high)


def episodes_for(values: Sequence[float], width: float) -> int:
    """Return the number of values for an interval of the mean with a given width.

    Args:
        values: at least two, such as the differences of pairs.
        width: from end to end, > 0.
    """
    z = NormalDist().inv_cdf((1 + _LEVEL) / 2)
    # A normal interval is 2 z s / sqrt(n) wide, solved for n.
    # One where all values are equal: their interval has no width at all.
    return max(1, math.ceil((2 * z * float(np.std(values, ddof=1)) / width) ** 2))

"""How sure a mean is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

#: Resamples of an interval; its ends then move by about a hundredth of its width.
RESAMPLES = 10_000


def mean_interval(
    values: Sequence[float], *, level: float = 0.95, seed: int = 0
) -> tuple[float, float, float]:
    """Return the mean and the ends of its percentile bootstrap interval.

    Args:
        values: at least one.
        level: share of the resampled means that lie inside.
        seed: of the resampling.

    Source: Efron 1979, "Bootstrap methods: another look at the jackknife".
    """
    data = np.asarray(values, np.float64)
    drawn = np.random.default_rng(seed).integers(len(data), size=(RESAMPLES, len(data)))
    means = data[drawn].mean(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(data.mean()), float(low), float(high)

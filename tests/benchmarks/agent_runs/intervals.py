"""Interquartile means, and how far they are to be trusted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_DRAWS = 10_000


def interquartile_mean(values: Sequence[float]) -> float:
    """Return the mean without the lowest and the highest quarter, each rounded down.

    Source: Agarwal et al. 2021, "Deep reinforcement learning at the edge of the statistical
    precipice".
    """
    return float(_means(np.asarray(values, float)[None])[0])


def interval(values: Sequence[float], share: float = 0.95) -> tuple[float, float]:
    """Return the bootstrap interval of the interquartile mean; percentiles, from a fixed seed."""
    found = np.asarray(values, float)
    drawn = np.random.default_rng(0).choice(found, (_DRAWS, len(found)))
    low, high = np.quantile(_means(drawn), [(1 - share) / 2, (1 + share) / 2])
    return float(low), float(high)


def _means(rows: np.ndarray) -> np.ndarray:
    count = rows.shape[1]
    cut = count // 4
    return np.sort(rows, axis=1)[:, cut : count - cut].mean(axis=1)

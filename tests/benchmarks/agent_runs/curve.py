"""Returns of the episodes of a training, by the steps at which they ended."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

#: Points of a curve.
BINS = 50


class Curve:
    """Mean returns over equal spans of steps.

    Args:
        steps: of the whole run.
    """

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._began = time.perf_counter()
        self._counts, self._sums = [0] * BINS, [0.0] * BINS
        self._seconds: list[float | None] = [None] * BINS

    def add(self, step: int, count: int, mean: float, seconds: float | None = None) -> None:
        """Take in so many episodes that ended up to a step, and their mean return.

        Args:
            step: of all envs together.
            count: of episodes.
            mean: of their returns.
            seconds: since the start; None: those since the curve was made.
        """
        at = min(BINS - 1, max(0, step - 1) * BINS // self._steps)
        self._counts[at] += count
        self._sums[at] += count * mean
        passed = time.perf_counter() - self._began if seconds is None else seconds
        self._seconds[at] = passed

    def points(self) -> list[dict[str, Any]]:
        """Return steps, episodes, mean return and seconds of each span in which episodes ended."""
        return [
            {
                "step": (i + 1) * self._steps // BINS,
                "episodes": self._counts[i],
                "return": self._sums[i] / self._counts[i],
                "seconds": self._seconds[i],
            }
            for i in range(BINS)
            if self._counts[i]
        ]

    def last_tenth(self) -> float | None:
        """Return the mean over the episodes of the last tenth of the steps; None without any."""
        count = sum(self._counts[-BINS // 10 :])
        return sum(self._sums[-BINS // 10 :]) / count if count else None


def by_tenths(run: Mapping[str, Any]) -> list[float | None]:
    """Return mean returns of the episodes that ended in each tenth of the steps of a run."""
    counts, sums = [0] * 10, [0.0] * 10
    for point in run["curve"]:
        # "step" ends a span, and spans are as long as parts of tenths.
        tenth = min(9, (point["step"] - 1) * 10 // run["steps"])
        counts[tenth] += point["episodes"]
        sums[tenth] += point["episodes"] * point["return"]
    return [total / count if count else None for total, count in zip(sums, counts, strict=True)]

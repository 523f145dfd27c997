"""The time that a plan takes, and the most that it may take."""

from __future__ import annotations

import math
import time


class Clock:
    """Measures how long one plan, or one batch of them, takes.

    Args:
        max_seconds: when `over` becomes true; None: never.
    """

    def __init__(self, max_seconds: float | None) -> None:
        self._started = time.perf_counter()
        self._most = math.inf if max_seconds is None else max_seconds

    def restart(self) -> None:
        """Begin anew: what was done so far is no part of planning."""
        self._started = time.perf_counter()

    @property
    def limited(self) -> bool:
        """Whether the time can be up."""
        return self._most < math.inf

    @property
    def seconds(self) -> float:
        """Wall time since the clock was made."""
        return time.perf_counter() - self._started

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return self.seconds >= self._most

"""Clock: time limit of a plan, with compile time left out."""

from __future__ import annotations

import functools
import math
import time
from typing import Any

from plangym_ext.core.compiling.progress import compile_seconds


class Clock:
    """Measures how long one plan, or one batch of them, takes.

    Kernels are compiled, or loaded from disk, when they are first called. That is done
    once and is no part of a plan, so it is counted apart, wherever in the plan it occurs.

    Args:
        max_seconds: when `over` becomes true; None: never.
    """

    #: The search of trees that it is the time of, for callbacks.
    search: Any = None

    def __init__(self, max_seconds: float | None) -> None:
        _listen()
        self._started, self._compiled = time.perf_counter(), compile_seconds()
        self._most = math.inf if max_seconds is None else max_seconds

    @property
    def limited(self) -> bool:
        """Whether there is a time limit."""
        return self._most < math.inf

    @property
    def compile_seconds(self) -> float:
        """Seconds since the clock was made in which this thread has compiled."""
        return compile_seconds() - self._compiled

    @property
    def seconds(self) -> float:
        """Wall time since the clock was made, without `compile_seconds`."""
        return time.perf_counter() - self._started - self.compile_seconds

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return self.limited and self.seconds >= self._most


@functools.cache
def _listen() -> None:
    """Register the compile-time listener, from the first plan on."""
    # Here, as it imports numba, which a look at the options of planners does without.
    import plangym_ext.core.compiling.jit  # noqa: F401

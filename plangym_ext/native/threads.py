"""How many threads a native backend steps with."""

from __future__ import annotations

import os
from typing import Any


def checked_threads(n_workers: Any) -> int:
    """Threads to use: those asked for, or as many as there are processors if None.

    Raises:
        ValueError: not an int >= 1.
    """
    if n_workers is None:
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
    if isinstance(n_workers, bool) or not isinstance(n_workers, int) or n_workers < 1:
        raise ValueError(f"n_workers must be an int >= 1, threads here; got {n_workers!r}")
    return n_workers

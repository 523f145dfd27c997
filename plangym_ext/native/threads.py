"""How many threads a native backend steps with."""

from __future__ import annotations

import os
from typing import Any


def checked_threads(threads: Any) -> int:
    """Return the threads to use: those asked for, or as many as there are processors if None.

    Raises:
        ValueError: not an int >= 1.
    """
    if threads is None:
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise ValueError(f"threads must be an int >= 1; got {threads!r}")
    return threads

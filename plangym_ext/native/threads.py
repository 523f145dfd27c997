"""How many threads a native backend steps with."""

from __future__ import annotations

from typing import Any

from plangym_ext.core.numbers import at_least
from plangym_ext.core.own_process import usable_processors


def checked_threads(threads: Any) -> int:
    """Return the threads to use: those asked for, or as many as there are processors if None.

    Raises:
        InvalidOption: not an integer >= 1.
    """
    if threads is None:
        return usable_processors()
    return at_least("threads", threads, 1)

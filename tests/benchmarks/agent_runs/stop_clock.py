"""A clock that is stopped while something is looked at. Needs nothing but Python."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class StopClock:
    """Counts seconds of the wall and of the processor from its making on."""

    def __init__(self) -> None:
        self._began = self._now()
        self._paused = (0.0, 0.0)

    @staticmethod
    def _now() -> tuple[float, float]:
        return time.perf_counter(), time.process_time()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Leave out what happens within."""
        before = self._now()
        yield
        self._paused = tuple(
            paused + now - then
            for paused, now, then in zip(self._paused, self._now(), before, strict=True)
        )

    def read(self) -> dict[str, float]:
        """Return "seconds" and "processor_seconds"."""
        wall, processor = (
            now - began - paused
            for now, began, paused in zip(self._now(), self._began, self._paused, strict=True)
        )
        return {"seconds": wall, "processor_seconds": processor}

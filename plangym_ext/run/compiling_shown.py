"""Showing on the command line what is being compiled, for as long as it takes."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from plangym_ext.core.compiling.progress import LOGGER, compile_seconds
from plangym_ext.run.progress import ProgressLine


class _Line(logging.Handler):
    """A line that is wiped when what it tells of is over."""

    def __init__(self, line: ProgressLine) -> None:
        super().__init__()
        # What was compiled before this line is not of the time that it shows.
        self._line, self._before = line, compile_seconds()

    def emit(self, record: logging.LogRecord) -> None:
        """Show what is being compiled and how long this thread has been at it."""
        what: str = getattr(record, "compiling", "")
        if not what:
            self._line.wipe()
            return
        # The log is written by the thread that compiles.
        seconds = compile_seconds() - self._before
        so_far = f"; {seconds:.0f} s so far" if seconds >= 1 else ""
        self._line.update(f"compiling {what.removeprefix('plangym_ext.')} (once{so_far})")


@contextlib.contextmanager
def compiling_shown(line: ProgressLine | None = None) -> Iterator[None]:
    """Show what is compiled meanwhile; nothing appears where all of it is loaded from disk.

    Args:
        line: where; None: a line of its own on standard error.
    """
    handler, level = _Line(line or ProgressLine()), LOGGER.level
    LOGGER.addHandler(handler)
    # Loggers drop what is below a warning if they are not asked for it.
    LOGGER.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOGGER.setLevel(level)
        LOGGER.removeHandler(handler)

"""Compile-time measurement per thread, and log messages while code is compiled.

Code is compiled when it is first needed, which may be in the middle of a plan under a time
limit. Clocks take the seconds of their thread from here and leave them out. What is being
compiled is logged as `plangym_ext.compiling`, at the level INFO: the command line shows it,
a library stays silent unless its user asks for it.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator

LOGGER = logging.getLogger("plangym_ext.compiling")


class _Thread(threading.local):
    # Of the class, so that every thread begins with these.
    depth = 0  # compilations within compilations
    since = 0.0
    total = 0.0
    announced = 0


_thread = _Thread()


def begin_compiling() -> None:
    """Count the seconds of this thread from now on; calls nest."""
    if _thread.depth == 0:
        _thread.since = time.perf_counter()
    _thread.depth += 1


def end_compiling() -> None:
    """End the last `begin_compiling`; without one, do nothing."""
    if _thread.depth == 0:
        return  # it began before this listener was set
    _thread.depth -= 1
    if _thread.depth == 0:
        _thread.total += time.perf_counter() - _thread.since


def compile_seconds() -> float:
    """Return the seconds that this thread has spent on compiling and loading, so far."""
    return _thread.total


def begin_announced(what: str) -> None:
    """Log that `what` is being compiled, unless an outer announcement covers it; nests."""
    if _thread.announced == 0:
        LOGGER.info("compiling %s", what, extra={"compiling": what})
    _thread.announced += 1


def end_announced() -> None:
    """End the last `begin_announced`."""
    if _thread.announced == 0:
        return
    _thread.announced -= 1
    if _thread.announced == 0:
        LOGGER.info("compiled", extra={"compiling": ""})


@contextlib.contextmanager
def announced(what: str) -> Iterator[None]:
    """Announce and time the compilation in a block."""
    begin_announced(what)
    begin_compiling()
    try:
        yield
    finally:
        end_compiling()
        end_announced()

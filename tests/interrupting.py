"""Ctrl-C at a chosen line of the library's code, or while it waits for its workers."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from pathlib import Path

import plangym_ext

_SOURCES = str(Path(plangym_ext.__file__).parent)
#: Whether tests interrupt at every line.
EVERY_LINE = bool(os.environ.get("PYTEST_LONG"))


class InterruptAt:
    """Context that raises KeyboardInterrupt at the n-th line of the library's code in it.

    Args:
        number: n; -1 for none.

    Attributes:
        lines: how many lines there were.
    """

    def __init__(self, number):
        self._left = number
        self.lines = 0

    def __enter__(self):
        # Garbage of an earlier test, collected in here, would have its
        # finalizers interrupted in place of the call under test.
        self._collecting = gc.isenabled()
        gc.disable()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_):
        sys.settrace(None)
        if self._collecting:
            gc.enable()

    def _trace(self, frame, event, _):
        if not frame.f_code.co_filename.startswith(_SOURCES):
            return None
        if event == "line":
            self.lines += 1
            self._left -= 1
            if self._left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self._trace


#: Functions in which the main thread waits for its workers.
_WAITS = ("wait_readable", "pump", "_wait")


class InterruptWait:
    """Context that sends a signal to this process while the main thread waits for workers.

    Not simply some time later: on a busy machine the thread may be elsewhere by then, in the
    middle of a message, or out of the test.

    Args:
        seconds: before the first moment at which to send it.
        number: of the signal.
    """

    def __init__(self, seconds, number=signal.SIGINT):
        self._seconds, self._number = seconds, number
        self._thread = threading.Thread(target=self._interrupt)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._thread.join()

    def _interrupt(self):
        time.sleep(self._seconds)
        main, deadline = threading.main_thread().ident, time.monotonic() + 30
        while sys._current_frames()[main].f_code.co_name not in _WAITS:
            if time.monotonic() > deadline:  # without an interrupt the test fails
                return
            time.sleep(0.001)
        os.kill(os.getpid(), self._number)


def points(num_lines, few):
    """Lines at which to interrupt: all with PYTEST_LONG=1, else a few, spread out."""
    return range(1, num_lines + 1, 1 if EVERY_LINE else max(1, num_lines // few))

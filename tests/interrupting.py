"""Ctrl-C at a chosen line of the library's code."""

from __future__ import annotations

import gc
import os
import sys
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


def points(num_lines, few):
    """Lines at which to interrupt: all with PYTEST_LONG=1, else a few, spread out."""
    return range(1, num_lines + 1, 1 if EVERY_LINE else max(1, num_lines // few))

"""SIGTERM handling: open resources are closed before the process ends."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


# Not an Exception: what catches those on the way out must not swallow it.
class _Terminated(BaseException):
    """SIGTERM came."""


@contextmanager
def closing_when_terminated() -> Iterator[None]:
    """Leave the block in order if SIGTERM comes, then end by it as anything else would.

    Else half-written files stay, and workers have to find out by themselves. Only the main
    thread gets signals: elsewhere, and where SIGTERM has a handler already, nothing is changed.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _raise)
    try:
        yield
    except _Terminated:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # Not `sys.exit`: who waits for this process is to see that a signal ended it.
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _raise(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001
    # A second one ends the process at once.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise _Terminated

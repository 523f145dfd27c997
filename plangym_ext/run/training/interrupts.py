"""Ctrl-C handling of a run: the current round ends first."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self


class Interrupts:
    """Notes the first Ctrl-C, so that a run can end in order; the second raises.

    Only the main thread gets signals: elsewhere, and where they are ignored, nothing is
    changed.

    Args:
        ending: what is done before the run ends, for the message.
    """

    def __init__(self, ending: str = "ending the round and saving") -> None:
        self.seen = False
        self._ending = ending
        self._before: Any = None

    def __enter__(self) -> Self:
        main = threading.current_thread() is threading.main_thread()
        # Shells have programs in the background ignore it: Ctrl-C is for another program then.
        if main and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.seen:
            raise KeyboardInterrupt
        self.seen = True
        _tell(f"\ninterrupted: {self._ending}; Ctrl-C again stops at once\n")


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """Delay Ctrl-C until the end of a block, such as one that starts a process.

    Not by a mask of this thread: another one would take the signal, and this one raise it.
    """
    main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT) if main else None
    if not callable(before):  # ignored, or not ours to handle
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            before(*came[0])


@contextlib.contextmanager
def interrupts_raised() -> Iterator[None]:
    """Raise Ctrl-C again in a block where a finaliser, or a callback of an import, swallows it.

    Python prints what is raised there, and goes on as if nothing had been typed.
    """
    before, thread = sys.unraisablehook, threading.get_ident()

    def hook(told: sys.UnraisableHookArgs) -> None:
        if told.exc_type is KeyboardInterrupt:
            threading.Thread(target=again, daemon=True).start()
        else:
            before(told)

    def again() -> None:
        # What is raised before the hook ends is swallowed as well.
        while any(
            frame.f_code is hook.__code__
            for frame, _ in traceback.walk_stack(sys._current_frames().get(thread))
        ):
            time.sleep(0.001)
        # To the thread, so that a call in which it waits is interrupted too.
        signal.pthread_kill(thread, signal.SIGINT)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


def _tell(text: str) -> None:
    """Write to standard error from a signal handler.

    The signal may have come in the middle of a write to the stream, which refuses another one
    inside of it: past its buffer, there is nothing to disturb.
    """
    try:
        descriptor = sys.stderr.fileno()
    except (OSError, ValueError):  # a stream in memory
        sys.stderr.write(text)
    else:
        with contextlib.suppress(OSError):  # that it is shown is not what the handler is for
            os.write(descriptor, text.encode())


# SIGTERM handling: open resources are closed before the process ends ----------


# Not an Exception: what catches those on the way out must not swallow it.
class _Terminated(BaseException):
    """SIGTERM came."""


@contextmanager
def closing_when_terminated() -> Iterator[None]:
    """On SIGTERM, leave the block in order, then end the process by the signal.

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

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
    """Delay Ctrl-C and SIGTERM until the end of a block, such as one that starts a process.

    Not by a mask of this thread: another one would take the signal, and this one raise it.
    """
    main = threading.current_thread() is threading.main_thread()
    found = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    # Those that are ignored, or not ours to handle, stay as they are.
    before = {number: handler for number, handler in found.items() if main and callable(handler)}
    came: list[tuple[int, FrameType | None]] = []
    for number in before:
        signal.signal(number, lambda *told: came.append(told))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for told in came[:1]:
            before[signal.Signals(told[0])](*told)


@contextlib.contextmanager
def interrupts_raised() -> Iterator[None]:
    """Raise a signal again in a block where a finaliser, or a callback of an import, swallows it.

    Python prints what is raised there, and goes on as if nothing had been typed.
    """
    before, thread = sys.unraisablehook, threading.get_ident()
    numbers = {KeyboardInterrupt: signal.SIGINT, Terminated: signal.SIGTERM}

    def hook(told: sys.UnraisableHookArgs) -> None:
        if number := numbers.get(told.exc_type):
            if isinstance(told.exc_value, Terminated):  # whose handler is gone since the first one
                signal.signal(number, told.exc_value.args[0])
            threading.Thread(target=again, args=(number,), daemon=True).start()
        else:
            before(told)

    def again(number: int) -> None:
        # What is raised before the hook ends is swallowed as well.
        while any(
            frame.f_code is hook.__code__
            for frame, _ in traceback.walk_stack(sys._current_frames().get(thread))
        ):
            time.sleep(0.001)
        # To the thread, so that a call in which it waits is interrupted too.
        signal.pthread_kill(thread, number)

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
class Terminated(BaseException):
    """SIGTERM came; its argument is the handler that has raised it."""


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
    came: list[int] = []

    def terminate(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001
        came.append(number)
        # A second one ends the process at once.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise Terminated(terminate)

    signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    except Terminated:
        pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if came:  # also where something has put an error of its own in its place
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.flush()
            # Not `sys.exit`: who waits for this process is to see that a signal ended it.
            os.kill(os.getpid(), signal.SIGTERM)

"""Fork: a sandboxed copy of this process that runs a trial."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import pickle
import select
import signal
import socket
import struct
import time
import warnings
from collections.abc import Callable
from typing import Any

from plangym_ext.errors import PlangymExtError
from plangym_ext.states.trials.sandbox import LIMITS

_LENGTH = struct.Struct("<q")
#: Sent instead of a length by a fork that is at work.
_BUSY = -1
#: Seconds between two of them.
_PULSE = 0.2
#: What a process has open that uses a GPU or a window, of which a fork is no working copy.
_DEVICES = ("/dev/nvidia", "/dev/dri", "/dev/kfd")


#: Seconds for which a fork may be silent: one step, reset or capture may take as long.
SILENCE = 30.0
#: Seconds for which it and what it has started may sleep: what they wait for does not come.
_ASLEEP = 5.0


class ForkFailed(PlangymExtError):
    """A fork hung, died, or could not be made: it proves nothing."""


class ForkHung(ForkFailed):
    """A fork did nothing for too long."""


class Line:
    """One end of the connection between a process and its fork.

    Args:
        end: of a pair.
        group: of processes that the fork leads; 0 if it leads none.
    """

    def __init__(self, end: socket.socket, group: int = 0) -> None:
        self._socket, self._group = end, group
        self._pulse = time.monotonic()

    def send(self, value: Any) -> None:
        """Send a picklable value."""
        data = pickle.dumps(value, protocol=5)
        self._socket.sendall(_LENGTH.pack(len(data)) + data)

    def receive(self, seconds: float | None = None) -> Any:
        """Return the next value that was sent.

        Args:
            seconds: for which the other end may be silent; None for ever.

        Raises:
            ForkHung: it was silent for longer, or all of its group have slept.
            ForkFailed: it ended.
        """
        while (length := _LENGTH.unpack(self._exactly(_LENGTH.size, seconds))[0]) == _BUSY:
            pass
        return pickle.loads(self._exactly(length, seconds))

    def busy(self, value: Any = None) -> None:
        """Send a sign of life if due, or a value."""
        now = time.monotonic()
        if now - self._pulse < _PULSE:
            return
        self._pulse = now
        if value is None:
            self._socket.sendall(_LENGTH.pack(_BUSY))
        else:
            self.send(value)

    def has_come(self) -> bool:
        """Return whether a message has come, or the other end has ended."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def _exactly(self, size: int, seconds: float | None) -> bytes:
        parts = []
        while size:
            self._wait(seconds)
            part = self._socket.recv(min(size, 1 << 20))
            if not part:
                raise ForkFailed("it died")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _wait(self, seconds: float | None) -> None:
        """Wait until there is something to read."""
        until = None if seconds is None else time.monotonic() + seconds
        poller, worked = select.poll(), -1
        poller.register(self._socket, select.POLLIN)
        while True:
            left = None if until is None else max(until - time.monotonic(), 0.0)
            share = left
            if left is not None and self._group:
                share = min(left, 1.0 if worked < 0 else _ASLEEP)
            if poller.poll(None if share is None else 1e3 * share):
                return
            before, worked = worked, _ticks(self._group) if self._group else -1
            if share == left or worked == before:
                raise ForkHung("it did nothing for too long and was stopped")

    def close(self) -> None:
        """Close this end."""
        self._socket.close()


def _ticks(group: int) -> int:
    """Return the processor time of a group's processes; the time of the clock if one is ready."""
    found = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
            # After the name, which may hold anything.
            state, _, leader, *fields = file.read().rpartition(b")")[2].split()
            if int(leader) == group:
                if state in (b"R", b"D"):
                    return time.monotonic_ns()
                found += sum(map(int, fields[8:12]))
    return found


class Fork:
    """A copy of this process in a sandbox; a context manager that ends it.

    Args:
        run: called in the copy with its end of the line. Its exceptions and all its objects end
            with the copy.

    Attributes:
        line: to the copy.
        seconds: of the processor that it took, once it has ended.

    Raises:
        ForkFailed: this process holds what no fork can use.
    """

    def __init__(self, run: Callable[[Line], None]) -> None:
        self.seconds = 0.0
        _check_devices()
        here, there = (_beyond_standard(end) for end in socket.socketpair())
        with warnings.catch_warnings():
            # Of threads that a fork lacks: one that hangs for it is ended.
            warnings.simplefilter("ignore")
            LIMITS.forks = True
            try:
                self._pid = os.fork()
            finally:
                LIMITS.forks = False
        if self._pid == 0:
            _be_the_fork(run, there)
        self._leads = not LIMITS.is_entered
        if self._leads:  # here too: it may not have come to it when it is ended
            with contextlib.suppress(OSError):
                os.setpgid(self._pid, self._pid)
        LIMITS.children.add(self._pid)
        there.close()
        self.line = Line(here, self._pid if self._leads else 0)

    def __enter__(self) -> Fork:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Kill the fork."""
        self.line.close()
        with contextlib.suppress(ProcessLookupError):
            # With its group: compiled code of the env may have started processes of its own.
            (os.killpg if self._leads else os.kill)(self._pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):  # reaped by a handler of the host's
            usage = os.wait4(self._pid, 0)[2]
            self.seconds = usage.ru_utime + usage.ru_stime
        LIMITS.children.discard(self._pid)


def _beyond_standard(end: socket.socket) -> socket.socket:
    """Return an end whose descriptor is none that an env writes its output to."""
    # Where those of a process are closed, they are given out again.
    with end:
        return socket.socket(fileno=fcntl.fcntl(end.fileno(), fcntl.F_DUPFD_CLOEXEC, 3))


def _be_the_fork(run: Callable[[Line], None], end: socket.socket) -> None:
    """Run in the copy, which ends here without any clean-up: that is the original's."""
    status = 1
    try:
        if not LIMITS.is_entered:  # forks of a fork are of its group
            os.setpgid(0, 0)
        LIMITS.enter(end.fileno())
        # What is garbage by now stays: freed in the middle of a play it would seem the env's work.
        gc.freeze()
        run(Line(end))
        status = 0
    finally:
        os._exit(status)


def _check_devices() -> None:
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            target = os.readlink(f"/proc/self/fd/{name}")
            if target.startswith(_DEVICES):
                raise ForkFailed(f"this process uses {target}, of which a fork has no copy")

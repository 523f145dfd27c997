"""WorkerProcess: start, watch, stop and reap a worker's operating-system process.

parent                                     worker
socket (Channel) <--- requests, answers ---> socket
lifeline, write end                          lifeline, read end
pidfd: readable once the worker is gone
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
import weakref
from pathlib import Path
from typing import Any

from plangym_ext.core.one_caller import each_in_child
from plangym_ext.errors import WorkerDied, WrongKind
from plangym_ext.states import trust
from plangym_ext.states.families import custom_families
from plangym_ext.workers.channel import (
    Channel,
    ChannelClosed,
    ChannelFull,
    open_standard_ones,
    wait_readable,
)
from plangym_ext.workers.limits import FIRST_MESSAGE_TIMEOUT, STACK_TIMEOUT
from plangym_ext.workers.processes import by_value
from plangym_ext.workers.processes.fork_server import UNKNOWN_STATUS, ForkedProcess, forked_worker
from plangym_ext.workers.processes.program import STACK_SIGNAL
from plangym_ext.workers.processes.registrations import Registrations
from plangym_ext.workers.protocol import Close, ForgetBlock, ForgetLayout, Reply, Start

_Process = ForkedProcess | subprocess.Popen[bytes]


class WorkerProcess:
    """A process that runs the worker program.

    It inherits its two ends of the connection and nothing else of this process: it is a fork
    of the fork server or a fresh interpreter. So it needs no `__main__` guard and no particular
    start method, and threads or libraries of the parent cannot disturb it.

    Args:
        constructor: cloudpickle of the callable that builds the env.
        index: number of the worker, for messages.
        imports: as of a `Service`.

    Attributes:
        channel: the parent's end of the connection.
        pidfd: readable once the worker is gone; -1 where the system has none.
    """

    def __init__(self, constructor: bytes, index: int, imports: tuple[str, ...] = ()) -> None:
        self.index = index
        #: How it ended, once that was seen.
        self.fallen: WorkerDied | None = None
        #: Numbers of the memory, queues and layouts that it has been told of.
        self.known: set[int] = set()
        #: Memory, queues and layouts that it knows and has to forget.
        self.expired: list[ForgetBlock | ForgetLayout] = []
        open_standard_ones()
        # The parent's module path, so that the library and the caller's modules are
        # found however the parent found them.
        path = _module_path()
        with contextlib.ExitStack() as undo:
            mine, theirs = socket.socketpair()
            undo.callback(mine.close)
            with contextlib.ExitStack() as theirs_only:
                theirs_only.callback(theirs.close)
                life_read, life_write = os.pipe()
                undo.callback(os.close, life_write)
                theirs_only.callback(os.close, life_read)
                # Where a worker writes its stack if it is asked for it; it alone keeps it open.
                self._stack_fd = -1
                if hasattr(os, "memfd_create"):
                    self._stack_fd = os.memfd_create("stack")
                    theirs_only.callback(os.close, self._stack_fd)
                fds = (theirs.fileno(), life_read, self._stack_fd)
                self._process, self._stack_fd = _started(path, fds, imports)
            undo.callback(_end, self._process)
            self.pidfd = os.pidfd_open(self.pid) if hasattr(os, "pidfd_open") else -1
            undo.pop_all()
        self.channel = Channel(mine, self.pidfd)
        kept = [life_write, self.pidfd] if self.pidfd >= 0 else [life_write]
        # Holds no reference to self, so a forgotten worker is stopped when collected.
        self._kill = weakref.finalize(self, _kill, self._process, self.channel, kept, os.getpid())
        _workers.add(self)
        # Its death is seen by the first wait, and so is that it reads nothing.
        with contextlib.suppress(ChannelClosed, ChannelFull):
            # Pickled by value, so that families of the caller's own script are found there.
            families = by_value.dumps(custom_families())
            registered = Registrations.of_this_process()
            # Proxies of a `multiprocessing.Manager` that an env holds prove who they are with it.
            keys = trust.session_key(), bytes(multiprocessing.current_process().authkey)
            start = Start(path, keys, families, registered, constructor)
            self.channel.send(start, timeout=FIRST_MESSAGE_TIMEOUT)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def signs(self) -> list[int]:
        """Descriptors that become readable when an answer comes or the worker ends."""
        return [fd for fd in (self.channel.fileno(), self.pidfd) if fd >= 0]

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        if not self._kill.alive:
            return False
        if self.pidfd >= 0:  # to ask the fork server takes longer
            return not wait_readable([self.pidfd], 0)
        return self._process.poll() is None

    @property
    def stopped(self) -> bool:
        """Whether a signal has stopped it, and none has continued it."""
        with contextlib.suppress(OSError):
            # Fields after the command, which is in parentheses and may hold some itself.
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
            return fields[0] in "Tt"
        return False

    def begin_stop(self) -> None:
        """Ask the worker to leave, without waiting for it."""
        if self._kill.alive:
            # A worker that reads nothing is killed after the grace, like any other.
            self.channel.try_send(Close())

    def kill(self) -> None:
        """End the process without waiting for that or releasing anything."""
        if self._kill.alive:
            _kill_group(self._process)

    def stop(self, grace: float) -> list[Reply]:
        """End the process and release everything; further calls do nothing.

        Args:
            grace: seconds that a worker asked to leave may take before it is killed.

        Returns:
            The messages that it has sent last.
        """
        found: list[Reply] = []
        if not self._kill.alive:
            return found
        self._wait_gone(grace)
        if grace:
            with contextlib.suppress(ChannelClosed, OSError):
                found = [message for message, _ in self.channel.collect()]
        self._kill()
        return found

    def _wait_gone(self, timeout: float) -> None:
        """Wait for the end of the process without reaping it, where the system can."""
        if self.pidfd >= 0:
            wait_readable([self.pidfd], timeout)
        else:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout)  # type: ignore[call-arg]

    def stack(self) -> str:
        """Return the Python stacks of the worker's threads, even if it hangs in native code.

        Empty if the system cannot tell, or the process does not react.
        """
        path = Path(f"/proc/{self.pid}/fd/{self._stack_fd}")
        text = ""
        with contextlib.suppress(OSError):
            os.kill(self.pid, STACK_SIGNAL)
            for _ in range(round(100 * STACK_TIMEOUT)):
                time.sleep(0.01)
                before, text = text, path.read_text(errors="replace")
                if text and text == before:
                    break
        return text

    def death(self, last_command: str) -> WorkerDied:
        """Return the error with a dead worker's exit; reaps it."""
        if self._process.returncode is None:
            self._wait_gone(1.0)
            # One that closed its socket yet lives on is of no more use than a dead one.
            _kill_group(self._process)
        code: int | None = self._process.wait()
        hint = ""
        if code == UNKNOWN_STATUS:
            code, how = None, "ended, how is not known, for the fork server has ended too,"
        elif (
            isinstance(self._process, subprocess.Popen)
            and signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN
        ):
            # The system keeps nothing of children then, and `wait` makes up a 0.
            code, how = None, "ended, how is not known, for this process ignores SIGCHLD,"
        elif code is not None and code < 0:
            how = f"was killed by {_signal_name(-code)}"
            if code == -signal.SIGKILL:
                hint = " If the system ran out of memory, use fewer workers."
        else:
            how = f"exited with status {code}"
        if self.channel.broken_off:
            hint = " A message to or from it was broken off by an error or an interrupt; call "
            hint += "restart() to go on with a new one."
        return WorkerDied(
            f"worker {self.index} (pid {self.pid}) {how} during {last_command!r}.{hint}",
            worker=self.index,
            pid=self.pid,
            exit_status=code,
            last_command=last_command,
        )


# A forked child lets go of them at once: a lifeline that it kept open would keep the workers
# alive when their parent has ended.
_workers = each_in_child(lambda worker: worker._kill())


def pickled_constructor(constructor: Any, index: int) -> bytes:
    """Return the cloudpickle of an env's constructor or of a `Service`, for a numbered worker.

    Raises:
        TypeError: it is not callable or cannot be pickled.
    """
    if not callable(constructor):
        raise WrongKind(
            f"worker {index}: constructor must be a callable that returns an env; "
            f"got {constructor!r}"
        )
    try:
        return by_value.dumps(constructor)
    except Exception as error:  # whatever a captured object's reduction raises
        raise WrongKind(
            f"worker {index}: constructor {constructor!r} cannot be pickled: {error}. "
            "Create what it captures inside it instead."
        ) from error


def _started(
    path: list[str], fds: tuple[int, int, int], imports: tuple[str, ...]
) -> tuple[_Process, int]:
    """Start the worker program; return its process, and its number of the third descriptor."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    # Either way it leads a group of its own: a terminal's Ctrl-C reaches the parent alone, and
    # processes that an env starts end with their worker.
    forked = forked_worker(environ, fds, imports)
    if forked is not None:
        return forked
    command = [sys.executable, "-P", "-m", "plangym_ext.workers.processes.program", *map(str, fds)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        pass_fds=[fd for fd in fds if fd >= 0],
        env=environ,
        process_group=0,
    )
    return process, fds[2]


def _module_path() -> list[str]:
    """Return this process's module path, with the current folder by its name."""
    try:
        here = [os.getcwd()]
    except FileNotFoundError:  # it was removed: nothing is found there any more
        here = []
    return [name for entry in sys.path for name in ([entry] if entry else here)]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _kill(process: _Process, channel: Channel, fds: list[int], owner: int) -> None:
    # A forked child has inherited the handle, but the worker is not its to end.
    if os.getpid() == owner:
        _end(process)
    else:
        process.returncode = 0  # or its own finalizer would complain
    channel.close()
    for fd in fds:
        os.close(fd)


def _end(process: _Process) -> None:
    _kill_group(process)
    process.wait()


def _kill_group(process: _Process) -> None:
    # Before its leader is reaped: afterwards the number may serve another group.
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)

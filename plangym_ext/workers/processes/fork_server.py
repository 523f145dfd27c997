"""ForkServer: a preloaded process from which workers are forked.

An interpreter that imports numpy and gymnasium starts in a quarter of a second, a fork of one in
about ten milliseconds. The server is an interpreter of its own, so nothing of this process, its
threads or its libraries is forked. It starts with the first worker and serves all later ones.
What takes longest, such as torch with its two seconds, it imports with the first worker that needs
it.

    this process                       server                    worker
    Fork, descriptors    ----------->  import, fork  --------->  program.main
    pid                  <-----------
    ExitStatus of a pid  ----------->  waitpid
    exit status          <-----------

A worker's group, lifeline and socket are as if this process had started it. The server ends with
this process, and when it has had no worker to look after for a while.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import struct
import subprocess
import sys
import threading
import weakref
from typing import Any

from plangym_ext.core.one_caller import each_in_child
from plangym_ext.workers.channel import wait_readable
from plangym_ext.workers.limits import SERVER_IDLE, SERVER_TIMEOUT
from plangym_ext.workers.protocol import ExitStatus, Fork

#: What `ForkedProcess.returncode` is if nothing tells how the process ended.
UNKNOWN_STATUS = 1 << 16
#: The pid of the answer to a `Fork` that the system has refused.
NO_PROCESS = -1
#: Read when Python, a library or a module of ours is loaded: a server that was started with
#: other values would not do.
_READ_AT_START = (
    *("PYTHON", "LD_", "GLIBC_", "MALLOC_"),
    *("BLIS_", "KMP_", "MKL_", "NPY_", "OMP_", "OPENBLAS_"),
    *("CUDA_", "DNNL_", "NUMBA_", "ONEDNN_", "PLANGYM_EXT_", "PYTORCH_", "TORCH"),
)

#: Length of a request; number of the request, and two results.
HEADER, ANSWER = struct.Struct("<Q"), struct.Struct("<Qqq")


def available() -> bool:
    """Return whether a server can fork workers on this system."""
    return sys.platform == "linux" and hasattr(os, "pidfd_open") and hasattr(socket, "send_fds")


class ForkedProcess:
    """A worker that the server has forked, with the interface of `subprocess.Popen`.

    Attributes:
        pid: its number; kept from others until `poll` or `wait` has told its end.
        returncode: as of `Popen`; `UNKNOWN_STATUS` if the server did not live to tell it.
    """

    def __init__(self, server: ForkServer, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._server = server

    def poll(self) -> int | None:
        """Return the exit status; None while the process runs."""
        if self.returncode is None:
            self.returncode = self._server.status(self.pid, wait=False)
        return self.returncode

    def wait(self) -> int:
        """Wait for the end of the process; return its exit status."""
        while self.returncode is None:
            self.returncode = self._server.status(self.pid, wait=True)
        return self.returncode


class ForkServer:
    """The server as this process sees it; may be used from several threads.

    Args:
        environ: of the server, which its workers do not keep.
        idle: seconds without a running worker after which it ends.
    """

    def __init__(self, environ: dict[str, str], idle: float = SERVER_IDLE) -> None:
        self.inherited = _inherited()
        self._lock = threading.RLock()
        #: Whether a request is under way, and the number of the last one.
        self._asking, self._asked = False, 0
        #: Workers that are gone and that the server has still to let go of.
        self._ended_unseen: list[int] = []
        with contextlib.ExitStack() as undo:
            self._socket, theirs = socket.socketpair()
            undo.callback(self._socket.close)
            with theirs:
                life_read, self._life_write = os.pipe()
                undo.callback(os.close, self._life_write)
                try:
                    fds = theirs.fileno(), life_read
                    arguments = [*map(str, fds), str(idle)]
                    self._process = subprocess.Popen(
                        [sys.executable, "-P", "-m", f"{__name__}_program", *arguments],
                        stdin=subprocess.DEVNULL,
                        pass_fds=fds,
                        env=environ,
                        process_group=0,
                    )
                finally:
                    os.close(life_read)
            undo.pop_all()
        self._socket.settimeout(SERVER_TIMEOUT)
        self._close = weakref.finalize(
            self, _close, self._process, self._socket, self._life_write, os.getpid()
        )
        _servers.add(self)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def descriptors(self) -> tuple[int, int]:
        """Descriptors that this process holds open for the server."""
        return self._socket.fileno(), self._life_write

    def start(
        self,
        environ: dict[str, str],
        fds: tuple[int, int, int],
        modules: dict[str, str] | None = None,
    ) -> tuple[int, int] | None:
        """Fork a worker; return its pid, and the number that the third descriptor has there.

        None if the system gives the server no further process.

        Args:
            environ: of the worker.
            fds: its socket, its lifeline, and where it writes its stack, or -1.
            modules: as of `Fork`.

        Raises:
            OSError: there is no server any more, or it does not answer.
        """
        folder = os.open(".", os.O_PATH | os.O_DIRECTORY)
        try:
            # Where they were closed, some file of this process alone may have got their numbers.
            standard = [fd for fd in (1, 2) if _is_inherited(fd)]
            sent = [*(fd for fd in fds if fd >= 0), *standard, folder]
            order = [sent.index(fd) if fd in sent else -1 for fd in (*fds, 1, 2, folder)]
            niceness = os.getpriority(os.PRIO_PROCESS, 0)
            fork = Fork(modules or {}, environ, _umask(), niceness, _limits(), order)
            started = self._ask(fork, sent)
            return started if started[0] != NO_PROCESS else None
        finally:
            os.close(folder)

    def status(self, pid: int, *, wait: bool) -> int | None:
        """Return how a worker ended; None if it has not."""
        try:
            ended, code = self._ask(ExitStatus(pid, wait), [])
        except OSError:
            # It is no child of this process, which cannot reap it: a signal shows whether it runs.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 0)
                if not wait:
                    return None
                _wait_gone(pid)
            self._ended_unseen.append(pid)
            return UNKNOWN_STATUS
        return code if ended else None

    def close(self) -> None:
        """End the server; its workers live on."""
        self._close()

    def _ask(self, request: Fork | ExitStatus, fds: list[int]) -> tuple[int, int]:
        if not self._lock.acquire(timeout=SERVER_TIMEOUT):
            raise BlockingIOError("the fork server is in use")
        try:
            # A finalizer may come here in the middle of a request of its own thread.
            if self._asking:
                raise BlockingIOError("the fork server is in use")
            self._asking = True
            return self._asked_and_answered(request, fds)
        finally:
            self._lock.release()

    def _asked_and_answered(self, request: Fork | ExitStatus, fds: list[int]) -> tuple[int, int]:
        try:
            self._asked += 1
            self._send(pickle.dumps((self._asked, request)), fds)
            found = self._answer()
            while self._ended_unseen:
                self._asked += 1
                status = ExitStatus(self._ended_unseen.pop(), wait=False)
                self._send(pickle.dumps((self._asked, status)), [])
                self._answer()
            return found
        except OSError:
            self.close()
            raise
        finally:
            self._asking = False

    def _send(self, body: bytes, fds: list[int]) -> None:
        try:
            socket.send_fds(self._socket, [HEADER.pack(len(body))], fds)
            self._socket.sendall(body)
        except BaseException:
            # Half a request: the next one would be taken for the rest of it.
            self.close()
            raise

    def _answer(self) -> tuple[int, int]:
        while True:
            answer = self._socket.recv(ANSWER.size, socket.MSG_WAITALL)
            if len(answer) < ANSWER.size:
                raise ConnectionResetError("the fork server is gone")
            number, first, second = ANSWER.unpack(answer)
            if number == self._asked:
                return first, second
            if first > 1:  # a worker that was started, and a wait for it that was interrupted
                self._ended_unseen.append(first)


# A forked child lets go of it: it asks a server of its own.
_servers = each_in_child(lambda server: server.close())
_current: ForkServer | None = None


def forked_worker(
    environ: dict[str, str], fds: tuple[int, int, int], imports: tuple[str, ...] = ()
) -> tuple[ForkedProcess, int] | None:
    """Start a worker; return it and the number of its third descriptor.

    None if that is not possible, and it has to be started another way.

    Args:
        environ: as of `ForkServer.start`.
        fds: likewise.
        imports: modules that the server imports first if this process has imported them.
    """
    global _current
    if not available():
        return None
    server, modules = current(), _files(imports)
    # A second attempt, for the first may find that the server has just ended.
    for _ in range(2):
        if server is None or server.inherited != _inherited():
            server = _current = ForkServer(environ)
        try:
            started = server.start(environ, fds, modules)
        except OSError:
            server = None
            continue
        return None if started is None else (ForkedProcess(server, started[0]), started[1])
    return None


def current() -> ForkServer | None:
    """Return the present fork server, if there is one."""
    server = _current
    return server if server is not None and server._close.alive else None


def _inherited() -> tuple[Any, ...]:
    """Return what a worker has of its server for good: of a server like this process."""
    return (
        sys.executable,
        {name: value for name, value in os.environ.items() if name.startswith(_READ_AT_START)},
        os.sched_getaffinity(0),  # numpy's library starts as many threads
        (os.getuid(), os.geteuid(), os.getgid(), os.getegid(), os.getgroups()),
    )


def _files(imports: tuple[str, ...]) -> dict[str, str]:
    """Return the file of each of these modules, by name, that this process has imported."""
    files = {name: getattr(sys.modules.get(name), "__file__", None) for name in imports}
    return {name: file for name, file in files.items() if file is not None}


def _limits() -> dict[int, tuple[int, int]]:
    """Return the resource limits of this process, `(soft, hard)` by number."""
    import resource

    numbers = {getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")}
    return {number: resource.getrlimit(number) for number in numbers}


def _umask() -> int | None:
    """Return the mask of this process, which `os.umask` would change; None if it is not told."""
    with contextlib.suppress(OSError), open("/proc/self/status") as file:
        return next((int(line.split()[1], 8) for line in file if line.startswith("Umask")), None)
    return None


def _is_inherited(fd: int) -> bool:
    """Return whether a program that this process starts has the descriptor too."""
    try:
        return os.get_inheritable(fd)
    except OSError:  # it is closed
        return False


def _wait_gone(pid: int) -> None:
    with contextlib.suppress(OSError):
        fd = os.pidfd_open(pid)
        try:
            wait_readable([fd], SERVER_TIMEOUT)
        finally:
            os.close(fd)


def _close(
    process: subprocess.Popen[bytes], connection: socket.socket, life_write: int, owner: int
) -> None:
    connection.close()
    os.close(life_write)  # at which the system kills the server
    if os.getpid() == owner:
        process.kill()
        process.wait()
    else:
        process.returncode = 0  # or its own finalizer would complain

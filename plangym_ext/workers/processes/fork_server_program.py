"""Program of the fork server: imports, then forks workers on request.

It is started as `python -m plangym_ext.workers.processes.fork_server_program SOCKET LIFELINE
IDLE`, with the numbers of two descriptors and the seconds without a worker after which it ends.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import pickle
import random
import signal
import socket
import sys
import time

from plangym_ext.workers.channel import open_standard_ones, wait_readable
from plangym_ext.workers.limits import ORPHAN_GRACE
from plangym_ext.workers.processes import program
from plangym_ext.workers.processes.fork_server import ANSWER, HEADER, NO_PROCESS, UNKNOWN_STATUS
from plangym_ext.workers.protocol import ExitStatus, Fork


def main(argv: list[str]) -> int:
    """Serve until the parent is gone or needs nothing; in a forked worker, run the worker."""
    from plangym_ext.workers.processes import program

    open_standard_ones()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would keep no exit status
    lifeline = int(argv[2])
    program.adopt()
    with program.killed_with_parent(lifeline):
        gc.disable()
        import plangym_ext.workers.row_worker  # noqa: F401 - it imports gymnasium

        gc.enable()
    # Garbage collections must not visit imported objects, and so copy their pages.
    gc.freeze()
    with socket.socket(fileno=int(argv[1])) as connection:
        arguments = _serve(connection, lifeline, float(argv[3]))
        if arguments is None:
            return 0
    os.close(lifeline)
    sys.argv[:] = [program.__file__, *arguments]
    return program.main(sys.argv)


def _serve(connection: socket.socket, lifeline: int, idle: float) -> list[str] | None:
    """Answer requests; return None at the end, and in a forked worker its arguments."""
    children: set[int] = set()
    arguments = _served(connection, lifeline, idle, children)
    if arguments is None:
        deadline = time.monotonic() + ORPHAN_GRACE
        # The parent may live on with its workers and need no server: then it kills this one.
        while (running := set(filter(_runs, children))) and time.monotonic() < deadline:
            time.sleep(0.005)
        program.end_orphans(running)
    return arguments


def _served(
    connection: socket.socket, lifeline: int, idle: float, children: set[int]
) -> list[str] | None:
    while True:
        if not wait_readable([connection.fileno()], idle):
            if any(map(_runs, children)):
                continue
            return None
        header, fds, *_ = socket.recv_fds(
            connection, HEADER.size, 8, socket.MSG_WAITALL | socket.MSG_CMSG_CLOEXEC
        )
        if not header:
            return None
        (length,) = HEADER.unpack(header)
        body = connection.recv(length, socket.MSG_WAITALL)
        if len(body) < length:
            return None
        number, request = pickle.loads(body)
        if isinstance(request, Fork):
            _import(request.modules, lifeline)
            try:
                pid = os.fork()
            except OSError:  # no room for another process: the parent tries another way
                pid = NO_PROCESS
            if pid == 0:
                return _become_worker(request, fds)
            if pid != NO_PROCESS:
                # Here too: the parent may want to end the group before the worker has run a line.
                with contextlib.suppress(OSError):
                    os.setpgid(pid, pid)
                children.add(pid)
            answer = pid, _named(request, fds)[2]
            for fd in fds:
                os.close(fd)
        else:
            answer = _ended(request)
            if answer[0]:
                children.discard(request.pid)
                # Those of the worker that has ended: what runs below others are their children.
                program.end_orphans(children)
        with contextlib.suppress(BrokenPipeError):
            connection.sendall(ANSWER.pack(number, *answer))


def _import(modules: dict[str, str], lifeline: int) -> None:
    """Import what later workers need too, as the parent has it; a worker reports what fails."""
    from plangym_ext.workers.processes import program

    new = {name: file for name, file in modules.items() if name not in sys.modules}
    if not new:
        return
    # A module may take for ever: meanwhile no request of the parent is seen to be the last.
    with program.killed_with_parent(lifeline):
        for name, file in new.items():
            with contextlib.suppress(Exception):  # whatever a module raises when it is imported
                found = importlib.util.find_spec(name)
                if found is not None and found.origin == file:
                    gc.disable()
                    importlib.import_module(name)
        gc.enable()
    gc.freeze()


def _named(request: Fork, fds: list[int]) -> list[int]:
    """Return the descriptors in the order of `ForkServer.start`, -1 for what is not there."""
    return [fds[place] if place >= 0 else -1 for place in request.order]


def _become_worker(request: Fork, fds: list[int]) -> list[str]:
    """Take over the parent's environment and limits; return the program's arguments."""
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    *mine, stdout, stderr, folder = _named(request, fds)
    for fd, number in ((stdout, 1), (stderr, 2)):
        if fd >= 0:
            os.dup2(fd, number)
            os.close(fd)
    with contextlib.suppress(OSError):  # a folder that may not be entered
        os.fchdir(folder)
    os.close(folder)
    if request.umask is not None:
        os.umask(request.umask)
    _limit(request.limits)
    with contextlib.suppress(OSError):  # to be less nice takes a privilege
        os.setpriority(os.PRIO_PROCESS, 0, request.niceness)
    os.environ.clear()
    os.environ.update(request.environ)
    # A fork draws what its siblings draw until it is seeded.
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    return [str(fd) for fd in mine]


def _limit(limits: dict[int, tuple[int, int]]) -> None:
    import resource

    for number, limit in limits.items():
        if resource.getrlimit(number) != limit:
            with contextlib.suppress(OSError, ValueError):  # a hard limit is not raised again
                resource.setrlimit(number, limit)


def _runs(pid: int) -> bool:
    with contextlib.suppress(ChildProcessError):
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    return False


def _ended(request: ExitStatus) -> tuple[int, int]:
    """Return whether a worker has ended, and its exit status."""
    try:
        pid, status = os.waitpid(request.pid, 0 if request.wait else os.WNOHANG)
    except ChildProcessError:
        return 1, UNKNOWN_STATUS
    return (1, os.waitstatus_to_exitcode(status)) if pid else (0, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv))

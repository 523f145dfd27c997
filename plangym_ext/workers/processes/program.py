"""Program of a worker process: set-up before it serves its env.

Started as `python -P -m plangym_ext.workers.processes.program SOCKET LIFELINE STACK` with three
inherited descriptors. The first message (`protocol.Start`) carries the parent's module path, what
it has registered, and the env's constructor; then `row_worker` answers one message at a time.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import fcntl
import gc
import multiprocessing
import os
import pickle
import signal
import socket
import sys
import time
from collections.abc import Collection, Iterator

from plangym_ext.core.own_children import PATIENCE, children_of, end_trees, is_reaped
from plangym_ext.states import trust
from plangym_ext.states.families import register_family
from plangym_ext.workers.channel import Channel, ChannelClosed, open_standard_ones
from plangym_ext.workers.protocol import READY, Failure, Start, Value
from plangym_ext.workers.remote_errors import ErrorReport, pickled

_F_SETSIG = 10  # of Linux; Python has no name for it before 3.13
#: Makes a worker write the stacks of its threads to the third descriptor.
STACK_SIGNAL = signal.SIGUSR2


def watch_parent(lifeline: int) -> None:
    """Kill this process as soon as the parent is gone, however busy it is.

    The parent holds the only writing end of the lifeline and never writes. When it
    dies the kernel sends a signal here, which ends the process even inside native code that
    holds the interpreter lock: SIGKILL where the system supports it, since an env may handle any
    other signal; else SIGIO. A worker leads a group of its own: the signal goes to all of it, so
    processes that the env started end too. Of those that have left the group see `orphans`.
    """
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    elif sys.platform == "linux":
        fcntl.fcntl(lifeline, _F_SETSIG, signal.SIGKILL)
    leads = os.getpgrp() == os.getpid()
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpid() if leads else os.getpid())
    flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | os.O_ASYNC | os.O_NONBLOCK)
    # The parent may have died before the flag was set; then the end is read here.
    with contextlib.suppress(BlockingIOError):
        if os.read(lifeline, 1) == b"":
            sys.exit(0)


@contextlib.contextmanager
def killed_with_parent(lifeline: int) -> Iterator[None]:
    """Context that watches the parent as `watch_parent` does; afterwards its end is only read."""
    watch_parent(lifeline)
    try:
        yield
    finally:
        flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, flags & ~os.O_ASYNC)


def _prepare(start: Start) -> None:
    """Import what every worker needs, and make known what the parent knows."""
    # Whatever is imported stays: to look for garbage in it takes a twentieth of the start.
    gc.disable()
    try:
        import plangym_ext.workers.row_worker  # noqa: F401 - it imports gymnasium

        for family in pickle.loads(start.families):
            register_family(family)
        if start.registered is not None:
            start.registered.install()
    finally:
        gc.enable()


def main(argv: list[str]) -> int:
    """Run the worker; returns the exit status."""
    open_standard_ones()
    # The parent alone decides what an interrupt means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if (stack_fd := int(argv[3])) >= 0:
        # Written inside the signal handler: native code that holds the interpreter lock
        # cannot keep it from that.
        faulthandler.register(STACK_SIGNAL, file=stack_fd)
    watch_parent(int(argv[2]))
    adopt()
    connection = socket.socket(fileno=int(argv[1]))
    channel = Channel(connection)
    try:
        ((start, _), *rest) = channel.receive()
        sys.path[:] = start.path
        key, authkey = start.keys
        trust.join_session(key)
        multiprocessing.current_process().authkey = authkey
        try:
            _prepare(start)
            # Imported here: the module path of the parent is in place only now.
            from plangym_ext.workers.row_worker import Worker

            worker = Worker(channel, pickle.loads(start.constructor))
            description = pickled(worker.description())
        except BaseException as error:  # whatever the caller's constructor raises
            channel.send(Failure(READY, ErrorReport.of(error)))
            return 1
        channel.send(Value(READY, description))
        worker.serve(rest)
    except ChannelClosed:
        return 0
    finally:
        # Open until the process is gone, which is what its end tells; not to be complained of.
        connection.detach()
    return 0


# Clean-up of processes that envs started, when their worker ends --------------
# What an env starts stays in the worker's group, and ends with it by a signal to the group; but for
# what leaves the group (`setsid`, daemons). So workers and the fork server are subreapers of Linux:
# a process whose parent has ended becomes a child of the nearest one of these above it. Below a
# worker that runs is all that its env has started; once the worker is gone, it is all below the
# server, which ends it.


_PR_SET_CHILD_SUBREAPER = 36


def adopt() -> None:
    """Make this process the subreaper of its descendants."""
    # Elsewhere than on Linux there is no such function, or it refuses.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_orphans(own: Collection[int]) -> None:
    """End all children of this process except some, with their descendants."""
    deadline = time.monotonic() + PATIENCE
    while orphans := [pid for pid in children_of(os.getpid()) if pid not in own]:
        end_trees(orphans)
        # Their children become children of this process when they end.
        for pid in orphans:
            while not is_reaped(pid) and time.monotonic() < deadline:
                time.sleep(0.001)
        if time.monotonic() >= deadline:  # one that may not be killed, or is stuck in the kernel
            return


if __name__ == "__main__":
    sys.exit(main(sys.argv))

"""Clean-up of processes that envs started, when their worker ends.

What an env starts stays in the worker's group, and ends with it by a signal to the group; but for
what leaves the group (`setsid`, daemons). So workers and the fork server are subreapers of Linux:
a process whose parent has ended becomes a child of the nearest one of these above it. Below a
worker that runs is all that its env has started; once the worker is gone, it is all below the
server, which ends it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Collection

_PR_SET_CHILD_SUBREAPER = 36
#: Seconds that a process may take to end that was sent SIGKILL.
_PATIENCE = 2.0


def adopt() -> None:
    """Make this process the subreaper of its descendants."""
    # Elsewhere than on Linux there is no such function, or it refuses.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_orphans(own: Collection[int]) -> None:
    """End all children of this process but some, with all that is below them.

    Args:
        own: pids of those that stay.
    """
    deadline = time.monotonic() + _PATIENCE
    while orphans := [pid for pid in _children(os.getpid()) if pid not in own]:
        for pid in orphans:
            _end_tree(pid)
        # What was below them becomes a child of this process as they end.
        for pid in orphans:
            while not _is_reaped(pid) and time.monotonic() < deadline:
                time.sleep(0.001)
        if time.monotonic() >= deadline:  # one that may not be killed, or is stuck in the kernel
            return


def _end_tree(pid: int) -> None:
    # Stopped first, level by level: what is stopped starts nothing, and reaps nothing, so that no
    # number comes to stand for another process meanwhile.
    seen, level = {pid}, [pid]
    while level:
        for one in level:
            _send(one, signal.SIGSTOP)
        level = [child for one in level for child in _children(one) if child not in seen]
        seen.update(level)
    for one in seen:
        _send(one, signal.SIGKILL)


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _children(pid: int) -> list[int]:
    """Return the children of a process; none where the system does not tell."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children") as file:
                found += map(int, file.read().split())
    return found


def _is_reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True

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
import time
from collections.abc import Collection

from plangym_ext.core.construction.own_children import PATIENCE, children_of, end_trees, is_reaped

_PR_SET_CHILD_SUBREAPER = 36


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
    deadline = time.monotonic() + PATIENCE
    while orphans := [pid for pid in children_of(os.getpid()) if pid not in own]:
        end_trees(orphans)
        # What was below them becomes a child of this process as they end.
        for pid in orphans:
            while not is_reaped(pid) and time.monotonic() < deadline:
                time.sleep(0.001)
        if time.monotonic() >= deadline:  # one that may not be killed, or is stuck in the kernel
            return

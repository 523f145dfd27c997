"""A folder in which one process at a time writes."""

from __future__ import annotations

import contextlib
import errno
import os
import weakref
from pathlib import Path

from plangym_ext.arrays.closing import Closing
from plangym_ext.core.own_process import each_in_child, fork_count
from plangym_ext.errors import FolderBusy

_TAKEN = (errno.EWOULDBLOCK, errno.EACCES)


class FolderLock(Closing):
    """Holds a folder until it is closed, or the process ends in whatever way.

    The lock is on the folder itself, so it leaves no file, and the system lifts it when the
    process dies: a run that was killed can be resumed at once. Where the system or the file
    system has no such locks, nothing is held.

    Args:
        folder: that exists.

    Raises:
        FolderBusy: another process, or another part of this one, holds it.
    """

    def __init__(self, folder: Path) -> None:
        try:
            import fcntl
        except ImportError:  # not a Unix
            return
        # Of this process: `flock` holds for the open file, so forks share it and must not let it
        # go.
        descriptor = os.open(folder, os.O_RDONLY)
        # Before the lock, so that the descriptor is closed in any case.
        self._release = weakref.finalize(self, _let_go, descriptor, fork_count())
        try:
            # Without waiting: the other run may take days.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._release()
            if error.errno in _TAKEN:
                raise FolderBusy(
                    f"{folder}: another run is writing there. Wait until it has ended, or choose "
                    "another folder."
                ) from None
            return
        # A forked child shares the lock, and would keep it when this process is gone.
        _locks.add(self)

    def close(self) -> None:
        """Let go of the folder."""
        if hasattr(self, "_release"):
            self._release()


def _let_go(descriptor: int, held_at: int) -> None:
    if held_at == fork_count():
        import fcntl

        # By name: a child that was forked a moment ago may not have closed its copy yet.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


_locks = each_in_child(FolderLock.close)

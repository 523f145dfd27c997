"""Atomic file replacement and file locks: readers never see a half-written file.

One process at a time writes a file, or in a folder: what it holds is locked.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from plangym_ext.arrays.closing import Closing
from plangym_ext.core.one_caller import each_in_child, fork_count, in_child
from plangym_ext.errors import FolderBusy, InvalidOption, UnreadableFile

_TAKEN = (errno.EWOULDBLOCK, errno.EACCES)


#: Flags of `os.open` for the modes of `opened`.
_FLAGS = {
    "r": os.O_RDONLY,
    "w": os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
    "a": os.O_WRONLY | os.O_CREAT | os.O_APPEND,
}


def opened(path: Path, mode: str = "rb", **how: Any) -> IO[Any]:
    """Open a file; refuse a pipe or device on which a reader or writer would wait.

    Args:
        path: of the file.
        mode: "r", "w" or "a", and "b" for bytes, as of the built-in `open`.
        how: `newline` and `encoding`, likewise.

    Raises:
        OSError: it cannot be opened, or is a folder.
        UnreadableFile: it is a pipe or a device.
    """
    descriptor = _descriptor(path, _FLAGS[mode[0]])
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    return os.fdopen(descriptor, mode, **how)


def _descriptor(path: Path, flags: int) -> int:
    """Return a descriptor of a file, or of a folder that is only read."""
    no_file = f"{path}: it is a pipe or a device, no file."
    try:
        # Not waiting: a pipe without one at the other end would not even open.
        descriptor = os.open(path, flags | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0), 0o666)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENODEV):  # a pipe without a reader, or a socket
            raise UnreadableFile(no_file) from None
        raise
    mode = os.fstat(descriptor).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        os.close(descriptor)
        raise UnreadableFile(no_file)
    return descriptor


def contents(path: Path, most: int = 64 << 20) -> bytes:
    """Return the bytes of a file; refuse pipes, devices and files that are too large.

    Raises:
        OSError: it cannot be read, or is a folder.
        UnreadableFile: it is a pipe or a device, or has more bytes.
    """
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise UnreadableFile(f"{path}: it must have at most {most:,} bytes; it has {size:,}.")
        return file.read()


class PathLock(Closing):
    """Locks a path until it is closed or the process ends.

    The lock is on the file or folder itself, so it leaves nothing, and the system lifts it when
    the process dies. Where the system or the file system has no such locks, nothing is held.

    Args:
        path: of the file or folder.
        flags: of `os.open`; with `os.O_CREAT` a file is made if it is not there.
        busy: what to say if another process holds it.

    Raises:
        FolderBusy: another process, or another part of this one, holds it.
        OSError: it cannot be opened.
        UnreadableFile: it is a pipe or a device.
    """

    def __init__(self, path: Path, flags: int, busy: str) -> None:
        self._path = path
        self._open(path, flags, busy)
        # Its last holder may have renamed or removed it between the opening and the lock.
        while not self.is_there():
            self.close()
            self._open(path, flags, busy)

    def _open(self, path: Path, flags: int, busy: str) -> None:
        descriptor = _descriptor(path, flags)
        self._descriptor = descriptor
        # Before the lock, so that the descriptor is closed in any case. Of this process: `flock`
        # holds for the open file, so forks share it and must not let it go.
        self._release = weakref.finalize(self, _let_go, descriptor, fork_count())
        try:
            import fcntl

            # Without waiting: the other one may take days.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:  # not a Unix
            return
        except OSError as error:
            if error.errno not in _TAKEN:
                return
            self._release()
            raise FolderBusy(busy) from None
        # A forked child shares the lock, and would keep it when this process is gone.
        _locks.add(self)

    def is_there(self) -> bool:
        """Return whether the path still names the locked file; False after a release."""
        with contextlib.suppress(OSError):
            # The number of a descriptor that was closed may be another file's by now.
            return self._release.alive and os.path.samestat(
                os.stat(self._path), os.fstat(self._descriptor)
            )
        return False

    def close(self) -> None:
        self._release()


def _let_go(descriptor: int, held_at: int) -> None:
    if held_at == fork_count():
        with contextlib.suppress(OSError, ImportError):
            import fcntl

            # By name: a child that was forked a moment ago may not have closed its copy yet.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


_locks = each_in_child(PathLock.close)


class HeldFile(Closing):
    """A file that this process will write; other processes cannot write it meanwhile.

    What is written lies beside the file, under another name, until it is whole. That one is made
    and locked now, so that a place which cannot be written to is found before the work is done.
    `replacing` of the same path writes there, and it is let go.

    Args:
        path: of the file; what is there stays until it is replaced.
        kept: whether it is for a later `replacing`, by whatever function.

    Raises:
        FolderBusy: another process, or another part of this one, is writing it.
        InvalidOption: the path is that of a folder or device.
        OSError: nothing can be written there.
    """

    def __init__(self, path: Path, *, kept: bool = True) -> None:
        self.path = path.absolute()
        # A rename would put the file in the place of a device, and cannot in that of a folder.
        if path.exists() and not path.is_file():
            kind = "folder" if path.is_dir() else "device"
            raise InvalidOption(f"{path} must be a file, or not be there; it is a {kind}.")
        self.partial = self.path.with_name(f".{self.path.name}.partial")
        self._lock = PathLock(
            self.partial,
            os.O_RDWR | os.O_CREAT,
            f"{path}: another process is writing it. Wait until it has ended, or name another "
            "place.",
        )
        if kept:
            _held[self.path] = self

    def close(self) -> None:
        if _held.get(self.path) is self:
            del _held[self.path]
        # First, while no other process can have it: half a file is of no use, and where the disk is
        # full it would keep it so.
        if self._lock.is_there():
            self.partial.unlink(missing_ok=True)
        self._lock.close()


#: Those of this process that nothing was written to yet, by their paths.
_held: dict[Path, HeldFile] = {}
# A forked child holds nothing; its parent does.
in_child(_held.clear)


@contextmanager
def replacing(path: Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a file beside `path` that takes its place when the block ends without an error.

    Args:
        path: of the file to write; an existing one is replaced as a whole.
        mode: "w" for text, which is UTF-8, "wb" for bytes, "w+b" to read them again too.

    Raises:
        FolderBusy: another process is writing it.
        InvalidOption: the path is that of a folder or device.
        OSError: it cannot be written, and has the name of `path`; nothing is left of it.
    """
    try:
        # Taken out: another thread that writes there at the same time is refused.
        kept = _held.pop(path.absolute(), None)
        with contextlib.closing(kept or HeldFile(path, kept=False)) as held:
            with held.partial.open(mode, encoding=None if "b" in mode else "utf-8") as file:
                yield file
                file.flush()
                # Or else a crash of the machine could leave the new name without the content.
                os.fsync(file.fileno())
            held.partial.replace(path)
    except OSError as error:
        if error.errno is not None:
            error.filename = str(path)  # a write alone names no file
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Bring the new name itself to the disk, where the system can."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

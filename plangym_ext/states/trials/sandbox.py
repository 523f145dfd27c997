"""Sandbox of a forked process: no effects on files, sockets or shared memory.

A fork has copies of all private memory. It shares open files (with their positions), sockets,
pipes and shared memory, and the file system. `enter` gives the copy its own of each.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import errno
import fcntl
import io
import mmap
import os
import re
import signal
import stat
import sys
from collections.abc import Iterator
from typing import Any

#: Largest file or shared mapping that is copied. Of a larger one the fork has nothing.
_COPIED = 256 << 20
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
#: Events of Python's audit hooks that reach other processes or machines.
_REFUSED = (
    "socket.connect",
    "socket.bind",
    "socket.sendto",
    "socket.sendmsg",
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "os.forkpty",
    "os.kill",
    "os.killpg",
    "os.truncate",
    "os.symlink",
    "os.link",
    "os.chmod",
    "os.chown",
)
# Landlock's system calls have the same numbers on all architectures.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
#: Its rights to write and remove files, and to make entries of directories (ABI 1).
_LANDLOCK_WRITES = 0b1_1111_1111_0010


#: Files of compiled code in the caches of numba and Python, whole or being written, and the
#: folders of these caches, of which numba ends some with a digest. What such a file holds follows
#: from the code alone: no future depends on it. Other files in these folders are files like others.
_COMPILED = re.compile(r"(/__pycache__|_[0-9a-f]{40})$|\.(nbi|nbc|pyc)(\.[\w.]+)?$")


class OutsideReached(PermissionError):
    """The env tried to reach another process or machine, which a copy of it must not."""


class Sandbox:
    """The limits of a fork, and of forks of it.

    Attributes:
        children: processes that this one has forked itself, and may end.
        forks: whether it is about to fork one.
        files: paths that were opened for writing, as the env named them. What was written lies
            in memory.
        is_entered: whether this process is such a fork.
        read_back: those of them that were opened again afterwards, but for compiled code.
    """

    def __init__(self) -> None:
        self.children: set[int] = set()
        self.forks = False
        self.files: set[str] = set()
        self.read_back: set[str] = set()
        #: Descriptors of the copies, by absolute path.
        self._copies: dict[str, int] = {}
        self._removed: set[str] = set()
        self.is_entered = False

    def enter(self, keep: int) -> None:
        """Detach this process from everything shared with the original.

        Args:
            keep: descriptor that stays as it is.
        """
        libc = ctypes.CDLL(None, use_errno=True)
        # Ctrl-C is the original's to handle; should that die, nothing waits for the copy.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        _own_descriptors(keep)
        _own_memory(libc)
        if not self.is_entered:
            self.is_entered = True
            self.write_in_memory()
            sys.addaudithook(self._refuse)
            _forbid_writing(libc)

    def _refuse(self, event: str, args: tuple[Any, ...]) -> None:
        if event not in _REFUSED or (event == "os.kill" and args[0] in self.children):
            return
        if event == "os.fork" and self.forks:
            return
        what = ", ".join(repr(arg)[:60] for arg in args[:2])
        raise OutsideReached(f"{event}({what})")

    # Files ----------------------------------------------------------------------------

    def write_in_memory(self) -> None:
        """Redirect Python's file writes to copies in memory."""
        module: Any = os
        low, high = os.open, io.open

        def open_low(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
            reads = flags & os.O_ACCMODE != os.O_WRONLY
            kept = not flags & os.O_TRUNC
            place = self._place(path, bool(flags & _WRITES), kept=kept, reads=reads)
            if place is not path:
                flags &= os.O_ACCMODE | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
            return low(place, flags, *args, **kwargs)

        def open_high(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            writes, reads = not {*mode}.isdisjoint("wax+"), not {*mode}.isdisjoint("r+")
            place = self._place(file, writes, kept="w" not in mode, reads=reads)
            return high(place, mode.replace("x", "w"), *args, **kwargs)

        for name, stands_in in {
            "open": open_low,
            "mkdir": self._mkdir,
            "remove": self._remove,
            "unlink": self._remove,
            "rmdir": self._remove,
            "rename": self._rename,
            "replace": self._rename,
        }.items():
            setattr(module, name, stands_in)
        plain_stat = os.stat

        def look_up(path: Any, *args: Any, **kwargs: Any) -> os.stat_result:
            return plain_stat(self._looked_up(path), *args, **kwargs)

        module.stat = look_up
        for home in (builtins, io):
            home.open = open_high  # type: ignore[attr-defined]

    def _mkdir(self, path: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ARG002 - of os.mkdir
        self.files.add(_absolute(path))
        if os.path.isdir(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)

    def _remove(self, path: Any, **kwargs: Any) -> None:  # noqa: ARG002 - of os.remove
        self.files.add(_absolute(path))
        self._copies.pop(_absolute(path), None)
        self._removed.add(_absolute(path))

    def _rename(self, source: Any, target: Any, **kwargs: Any) -> None:  # noqa: ARG002
        self.files.update((_absolute(source), _absolute(target)))
        if (copy := self._copies.pop(_absolute(source), None)) is not None:
            self._copies[_absolute(target)] = copy

    def _looked_up(self, path: Any) -> Any:
        """Return where to look whether a file exists, which the env may have made or removed."""
        if not isinstance(path, str | bytes | os.PathLike):
            return path  # a descriptor
        name = _absolute(path)
        if name in self._copies:
            self._note_read(name)
            return self._copies[name]
        if name in self._removed:
            self._note_read(name)
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return path

    def _note_read(self, name: str) -> None:
        if not _COMPILED.search(name):
            self.read_back.add(name)

    def _place(self, path: Any, writes: bool, *, kept: bool, reads: bool) -> Any:
        """Return where a file is written, or read after it was written."""
        if not isinstance(path, str | bytes | os.PathLike):
            return path  # a descriptor
        name = _absolute(path)
        if name in self._copies:
            # To append is not to read: a log that each instance goes on with is none.
            if kept and reads:
                self._note_read(name)
        elif not writes or name.startswith(("/dev/", "/proc/")):
            return path
        else:
            self.files.add(name)
            copy = os.memfd_create("written")
            if kept and os.path.isfile(name):
                _copy(name, copy)
            # Only now: the looks above are at the file itself, and not the env's.
            self._copies[name] = copy
        return f"/proc/self/fd/{self._copies[name]}"


def _absolute(path: Any) -> str:
    return os.path.abspath(os.fsdecode(path))


def _copy(path: str, target: int) -> None:
    """Write the content of a file to a descriptor, unless it is too large."""
    if os.path.getsize(path) > _COPIED:
        return
    with contextlib.suppress(OSError), open(path, "rb") as source:
        while block := source.read(1 << 20):
            os.write(target, block)


def _own_descriptors(keep: int) -> None:
    """Replace every descriptor that writes, or moves a position, of the original."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):  # also where the original has closed them
        os.dup2(nothing, fd, inheritable=False)
    if nothing > 2:
        os.close(nothing)
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        if fd < 3 or fd == keep:
            continue
        with contextlib.suppress(OSError):  # the directory's own is closed by now
            own = _own_file(fd)
            if own is not None:
                os.dup2(own, fd, inheritable=False)
                os.close(own)


def _own_file(fd: int) -> int | None:
    """Return a descriptor of the same content at the same position; None to keep this one."""
    kind = os.fstat(fd)
    if stat.S_ISDIR(kind.st_mode):
        return None
    if stat.S_ISCHR(kind.st_mode):
        return None if os.readlink(f"/proc/self/fd/{fd}").startswith("/dev/") else _nothing()
    if stat.S_ISFIFO(kind.st_mode) or stat.S_ISSOCK(kind.st_mode):
        # What comes through it is unknown here: to read an end of file in its place would look
        # the same after each restore.
        return os.open(os.devnull, os.O_WRONLY)
    if not stat.S_ISREG(kind.st_mode):
        return _nothing()
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    at = os.lseek(fd, 0, os.SEEK_CUR)
    if flags & os.O_ACCMODE == os.O_RDONLY:
        own = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
    elif kind.st_size > _COPIED:
        return _nothing()
    else:
        own = os.memfd_create("copy")
        # By its path: this descriptor may be for writing alone, and its position is shared.
        _copy(f"/proc/self/fd/{fd}", own)
    os.lseek(own, at, os.SEEK_SET)
    return own


def _nothing() -> int:
    return os.open(os.devnull, os.O_RDWR)


def _own_memory(libc: Any) -> None:
    """Make shared memory that may be written private, with the same content."""
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x10  # MAP_FIXED
    for first, last in _shared_mappings():
        content = ctypes.string_at(first, last - first) if last - first <= _COPIED else b""
        protection = mmap.PROT_READ | mmap.PROT_WRITE
        if libc.mmap(first, last - first, protection, private, -1, 0) == first:
            ctypes.memmove(first, content, len(content))


def _shared_mappings() -> Iterator[tuple[int, int]]:
    with open("/proc/self/maps", "rb") as file:
        lines = file.read().split(b"\n")
    for line in lines:
        where, _, rest = line.partition(b" ")
        if rest[1:4:2] == b"ws" and b"/dev/" not in rest.replace(b"/dev/shm/", b"").replace(
            b"/dev/zero", b""
        ):
            first, last = (int(end, 16) for end in where.split(b"-"))
            yield first, last


def _forbid_writing(libc: Any) -> None:
    """Forbid file writes of compiled code by Landlock; Linux 5.13 and later."""
    rules = ctypes.c_uint64(_LANDLOCK_WRITES)
    ruleset = libc.syscall(_CREATE_RULESET, ctypes.byref(rules), ctypes.sizeof(rules), 0)
    if ruleset < 0:
        return
    try:
        _allow(libc, ruleset, "/dev")
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        libc.syscall(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(libc: Any, ruleset: int, folder: str) -> None:
    where = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    rule = ctypes.create_string_buffer(
        _LANDLOCK_WRITES.to_bytes(8, "little") + where.to_bytes(4, "little"), 12
    )
    libc.syscall(_ADD_RULE, ruleset, 1, rule, 0)
    os.close(where)


#: The limits of this process, for those that are forked from it.
LIMITS = Sandbox()

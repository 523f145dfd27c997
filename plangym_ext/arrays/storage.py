"""SharedBlock: anonymous shared memory that several processes map, without clean-up.

On Linux a block is anonymous (`memfd_create`): it has no name, it does not
count against `/dev/shm`, and the kernel frees it with the last descriptor and
the last mapping, however the processes end. Elsewhere a block is a named POSIX
segment that its creator unlinks.

    creator                                     receiver
    -------                                     --------
    fd, mapping  -- Process argument (fd) --->  fd, mapping
                 -- pickle (pid, fd, inode) ->  opens /proc/<pid>/fd/<fd>
                 -- pass_fds, SCM_RIGHTS ---->  SharedBlock.attach(fd, nbytes)
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import math
import mmap
import os
import secrets
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from plangym_ext.errors import ArrayClosed, InvalidOption, StorageError, WrongKind

# Reaching another process's descriptor needs /proc, and so does an anonymous
# block that is to travel in a pickle.
ANONYMOUS = hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd")

#: In place of what is mapped there; Python's `mmap` has no name for it.
_MAP_FIXED = 0x10

# Blocks of this process by (device, inode): unpickling a block that is here
# already, its creator included, gives the same mapping, so views keep aliasing.
_blocks: weakref.WeakValueDictionary[tuple[int, int], SharedBlock] = weakref.WeakValueDictionary()
# Open blocks by the identity of their mapping, which arrays made of them refer to.
_by_map: weakref.WeakValueDictionary[int, SharedBlock] = weakref.WeakValueDictionary()


class SharedBlock:
    """A run of zeroed bytes that other processes can map.

    The block owns one descriptor. The mapping belongs to the block and to
    every numpy array made by `ndarray`; it is unmapped when the last of them
    is gone, never under a live array.
    """

    __slots__ = ("__weakref__", "_address", "_finalizer", "_key", "_map", "_name", "fd", "nbytes")

    fd: int  # -1 once closed
    nbytes: int

    def __init__(self, fd: int, nbytes: int, name: str | None, *, creator: bool) -> None:
        """Map `fd` and own it. Use `create` or `attach`."""
        try:
            stat = os.fstat(fd)
            if stat.st_size < nbytes:
                raise StorageError(
                    f"SharedBlock: descriptor {fd} must hold at least {nbytes} bytes; "
                    f"it holds {stat.st_size}. Pass the nbytes that the block was created with."
                )
            self._map: mmap.mmap | None = _map(fd, nbytes)
        except BaseException:
            os.close(fd)
            if name is not None and creator:
                _unlink(name)
            raise
        self.fd, self.nbytes, self._name = fd, nbytes, name
        self._address = np.frombuffer(self._map, np.uint8).__array_interface__["data"][0]
        _by_map[id(self._map)] = self
        self._key = (stat.st_dev, stat.st_ino)
        # Without a name one call of C does it: Python drops a Ctrl-C that lands in a finalizer.
        self._finalizer: weakref.finalize[..., SharedBlock] = (
            weakref.finalize(self, os.close, fd)
            if name is None or not creator
            else weakref.finalize(self, _release, fd, name, os.getpid())
        )

    @classmethod
    def create(cls, nbytes: int) -> SharedBlock:
        """Make a new block of zeros.

        Args:
            nbytes: int >= 1. Pages are taken from memory when first written.

        Raises:
            TypeError, ValueError: `nbytes` is not an int, or is below 1.
            StorageError: the system refuses that much memory.
        """
        if isinstance(nbytes, bool) or not isinstance(nbytes, (int, np.integer)):
            raise WrongKind(f"SharedBlock.create: nbytes must be an int; got {nbytes!r}.")
        if nbytes < 1:
            raise InvalidOption(
                f"SharedBlock.create: nbytes must be at least 1; got {nbytes}. "
                f"An empty block cannot be mapped."
            )
        fd, name = _new_segment(int(nbytes))
        block = cls(fd, int(nbytes), name, creator=True)
        _blocks[block._key] = block
        return block

    @staticmethod
    def of(array: npt.NDArray[Any]) -> tuple[SharedBlock, int] | None:
        """Return the open block that an array made by `ndarray`, or a view of it, lies in.

        Returns:
            The block and the byte at which the array's first element lies, or None.
        """
        root = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        block = _by_map.get(id(root.base))
        # The number may have gone to another object: a closed block keeps its mapping no more.
        if block is None or block._map is not root.base:
            return None
        return block, array.__array_interface__["data"][0] - block._address

    @classmethod
    def attach(cls, fd: int, nbytes: int) -> SharedBlock:
        """Map a block of another process through an inherited or received descriptor.

        Args:
            fd: descriptor of the block; owned by the result from here on, and
                closed if attaching fails.
            nbytes: size that the block was created with.

        Raises:
            StorageError: `fd` is not open, is no block, or is too small.
        """
        try:
            os.fstat(fd)
        except OSError as error:
            raise StorageError(
                f"SharedBlock.attach: descriptor {fd} must be open in process {os.getpid()}; "
                f"got {error}. Name it in pass_fds, or send it with socket.send_fds."
            ) from error
        return cls(fd, nbytes, None, creator=False)

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._map is None

    def ndarray(
        self, shape: tuple[int, ...], dtype: npt.DTypeLike, offset: int = 0
    ) -> npt.NDArray[Any]:
        """Return the bytes of the block, viewed as a numpy array.

        Returns:
            A writable C-ordered view, valid for as long as the caller keeps
            it, even after `close`.

        Raises:
            ArrayClosed: the block was closed.
            ValueError: the array would not fit in the block.
        """
        if self._map is None:
            self._refuse("view")
        dtype = np.dtype(dtype)
        need = offset + math.prod(map(int, shape)) * dtype.itemsize
        if offset < 0 or need > self.nbytes:
            raise InvalidOption(
                f"SharedBlock.ndarray: shape {shape} {dtype} at offset {offset} must lie within "
                f"0..{self.nbytes} bytes; it ends at {need}. Create a larger block."
            )
        return np.ndarray(shape, dtype, buffer=self._map, offset=offset)

    def close(self) -> None:
        """Close the descriptor and let go of the mapping; safe to call twice.

        Arrays made before stay valid. A receiver that has not attached yet can
        no longer do so.
        """
        self._map = None
        self.fd = -1
        if _blocks.get(self._key) is self:
            del _blocks[self._key]
        self._finalizer()

    def _refuse(self, verb: str) -> NoReturn:
        raise ArrayClosed(
            f"SharedBlock: cannot {verb} a closed block of {self.nbytes} bytes. "
            f"Keep it open until its last user is done."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        if self._map is None:
            self._refuse("pickle")
        if self._name is not None:
            return _attach_name, (self._name, self.nbytes)
        if spawning():
            # The child inherits a descriptor of its own, so the block may be
            # closed here before the child has started.
            from multiprocessing.reduction import DupFd

            return _attach_inherited, (DupFd(self.fd), self.nbytes)
        return _attach_remote, (os.getpid(), self.fd, *self._key, self.nbytes)

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"fd={self.fd}"
        return f"SharedBlock(nbytes={self.nbytes}, {state})"


def keep_blocks_private() -> None:
    """Map every open block anew, so that what this process writes reaches no other one.

    For a forked copy that may still run code which writes to blocks. Its arrays stay valid and
    keep their bytes.
    """
    remap = ctypes.CDLL(None).mmap
    remap.restype = ctypes.c_void_p
    remap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    access, how = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | _MAP_FIXED
    for block in list(_by_map.values()):
        if not block.closed:
            remap(block._address, block.nbytes, access, how, block.fd, 0)


def spawning() -> bool:
    """Return whether a multiprocessing child is being started by the current pickle."""
    # A process that never imported it cannot be starting one; importing it
    # here would make every worker pay for it.
    context = sys.modules.get("multiprocessing.context")
    return context is not None and context.get_spawning_popen() is not None


def _new_segment(nbytes: int) -> tuple[int, str | None]:
    """Return (descriptor, name or None) of a fresh segment of `nbytes` zeros."""
    # With the number of its process, which tells whose it is if it is ever found alone.
    name = None if ANONYMOUS else f"/plangym_{os.getpid()}_{secrets.token_hex(6)}"
    fd = -1
    try:
        if name is None:
            fd = os.memfd_create("plangym_ext", os.MFD_CLOEXEC)
        else:
            fd = _posixshmem().shm_open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.ftruncate(fd, nbytes)
    except (OSError, OverflowError) as error:
        if fd >= 0:
            os.close(fd)
            if name is not None:
                _unlink(name)
        raise _no_memory(nbytes, error) from error
    return fd, name


def _posixshmem() -> Any:
    # Not multiprocessing.shared_memory: its tracker unlinks segments that
    # others still use, and its finalizer prints when a numpy view is alive.
    return importlib.import_module("_posixshmem")


def _map(fd: int, nbytes: int) -> mmap.mmap:
    # Before 3.13 mmap keeps a duplicate of fd until the mapping goes.
    options: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}
    try:
        return mmap.mmap(fd, nbytes, **options)
    except (OSError, OverflowError, ValueError) as error:
        raise _no_memory(nbytes, error) from error


def _no_memory(nbytes: int, error: BaseException) -> StorageError:
    return StorageError(
        f"SharedBlock: could not reserve {nbytes} bytes of shared memory: {error}. "
        f"Ask for less, or raise the limit on memory or open files."
    )


def _release(fd: int, name: str, pid: int) -> None:
    os.close(fd)
    # A forked child holds a copy of the creator's block but not its duties.
    if os.getpid() == pid:
        _unlink(name)


def _unlink(name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        _posixshmem().shm_unlink(name)


def _join(fd: int, nbytes: int, name: str | None = None) -> SharedBlock:
    """Return this process's block for the segment of `fd`, which is consumed."""
    stat = os.fstat(fd)
    known = _blocks.get((stat.st_dev, stat.st_ino))
    if known is not None:
        os.close(fd)
        return known
    block = SharedBlock(fd, nbytes, name, creator=False)
    _blocks[block._key] = block
    return block


def _attach_inherited(duplicate: Any, nbytes: int) -> SharedBlock:
    return _join(duplicate.detach(), nbytes)


def _attach_name(name: str, nbytes: int) -> SharedBlock:
    try:
        fd = _posixshmem().shm_open(name, os.O_RDWR, 0o600)
    except OSError as error:
        raise StorageError(
            f"SharedBlock: segment {name} of {nbytes} bytes is gone ({error}). "
            f"Its creator must keep it open until the receiver has unpickled it."
        ) from error
    return _join(fd, nbytes, name)


def _attach_remote(pid: int, fd: int, device: int, inode: int, nbytes: int) -> SharedBlock:
    known = _blocks.get((device, inode))
    if known is not None:
        return known
    try:
        here = os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR)
    except OSError as error:
        raise _gone(pid, fd, nbytes, str(error)) from error
    stat = os.fstat(here)
    # The sender may have closed the block and reused the number for another file.
    if (stat.st_dev, stat.st_ino) != (device, inode):
        os.close(here)
        raise _gone(pid, fd, nbytes, "the number now belongs to another file")
    return _join(here, nbytes)


def _gone(pid: int, fd: int, nbytes: int, why: str) -> StorageError:
    return StorageError(
        f"SharedBlock: descriptor {fd} of process {pid} must be an open block of {nbytes} bytes; "
        f"{why}. The sender must live and keep the array until the receiver has unpickled it, "
        f"and both must run as the same user."
    )


# Error message for allocations that exceed the memory available for envs ------


_REMEDY = (
    "Ask for fewer at once, make observations smaller (a wrapper that crops them, or another "
    "dtype), or raise the limit on memory."
)


@contextmanager
def told_of_memory(where: str, count: int, make: Any, nbytes: int | None = None) -> Iterator[None]:
    """Add the env and the number of envs to an error about too little memory.

    Args:
        where: the function that was called.
        count: of envs or rows.
        make: constructor or name of the env.
        nbytes: of shared memory that are asked for, if they are known.

    Raises:
        MemoryError, StorageError: as the block raised it, with this text.
    """
    try:
        yield
    except (MemoryError, StorageError) as error:
        if nbytes is None and not isinstance(error, MemoryError):
            raise  # it says how much
        name = make if isinstance(make, str) else getattr(make, "__qualname__", repr(make))
        asked = "" if nbytes is None else f", which take {nbytes:,} bytes of shared memory"
        kind = MemoryError if isinstance(error, MemoryError) else StorageError
        reason = str(error) or type(error).__name__
        raise kind(
            f"{where}: there is too little memory for {count} of {name}{asked}: "
            f"{reason.rstrip('.')}. {_REMEDY}"
        ) from error

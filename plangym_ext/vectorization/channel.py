"""Framed messages between a parent and its worker, over one Unix socket.

A frame is `[length: uint32][descriptors: uint32][pickle]`; the descriptors travel
with its first byte. Both ends are ours and trust each other; nothing read from a file
or a network ever comes this way.
"""

from __future__ import annotations

import array
import contextlib
import os
import pickle
import select
import socket
import struct
import time
from collections.abc import Callable, Iterable
from typing import Any

_HEADER = struct.Struct("<II")
_CHUNK = 1 << 16
#: Most descriptors that one message carries.
_MAX_FDS = 4
_ANCILLARY = socket.CMSG_SPACE(_MAX_FDS * struct.calcsize("i"))
# As plain numbers: the module has flags of an enum, whose arithmetic costs microseconds.
_TRUNCATED = int(socket.MSG_CTRUNC)
_DONTWAIT = int(socket.MSG_DONTWAIT)
_RIGHTS = (int(socket.SOL_SOCKET), int(socket.SCM_RIGHTS))

Message = tuple[Any, list[int]]


class ChannelClosed(ConnectionError):
    """The other end is gone."""


def wait_readable(fds: Iterable[int], timeout: float | None) -> list[int]:
    """Wait until some descriptors have something to read, and return them.

    Unlike `select.select` it takes descriptors of any number.

    Args:
        fds: open descriptors.
        timeout: seconds, or None for as long as it takes; then the result is empty.
    """
    poller = select.poll()
    for fd in fds:
        poller.register(fd, select.POLLIN)
    return [fd for fd, _ in poller.poll(None if timeout is None else timeout * 1000)]


def wait_awake(poller: select.poll, seconds: float) -> list[tuple[int, int]]:
    """What a poller has, after waiting for that up to some seconds without going to sleep.

    To be woken costs tens of microseconds, and on a busy machine the system may run the
    woken end in place of the one that wakes it. Whoever else wants the processor gets it
    in between.
    """
    deadline = time.monotonic() + seconds
    while not (events := poller.poll(0)) and time.monotonic() < deadline:
        os.sched_yield()
    return events


class Channel:
    """One end of the connection; for one thread at a time.

    Args:
        sock: connected stream socket; owned by the channel.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._poller = select.poll()
        self._poller.register(sock.fileno(), select.POLLIN)
        self._read = bytearray()
        self._fds: list[int] = []

    def fileno(self) -> int:
        """Descriptor to wait on for the next messages."""
        return self._sock.fileno()

    def send(
        self,
        message: Any,
        fds: tuple[int, ...] = (),
        meanwhile: Callable[[], object] | None = None,
    ) -> None:
        """Send a picklable message, and duplicates of some descriptors with it.

        Args:
            message: what to send.
            fds: descriptors to send along.
            meanwhile: called to receive messages that have come while this one does
                not fit: two ends that only send would wait for each other for ever.

        Raises:
            ChannelClosed: the other end is gone.
        """
        self.send_pickled(pickle.dumps(message, protocol=5), fds, meanwhile)

    def send_pickled(
        self,
        data: bytes,
        fds: tuple[int, ...] = (),
        meanwhile: Callable[[], object] | None = None,
    ) -> None:
        """`send` for a message that is pickled already."""
        rest: bytes | memoryview = _HEADER.pack(len(data), len(fds)) + data
        left = list(fds)
        try:
            while rest:
                try:
                    if left:
                        sent = socket.send_fds(self._sock, [rest], left, _DONTWAIT)
                        left = []
                    else:
                        sent = self._sock.send(rest, _DONTWAIT)
                    rest = memoryview(rest)[sent:] if sent < len(rest) else b""
                except BlockingIOError:
                    self._wait_for_room(meanwhile)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ChannelClosed("the other end of the channel is gone") from error
        except BaseException:
            self._break()
            raise

    def try_send(self, message: Any) -> None:
        """Send a small message if it can go out at once; else, or without a peer, do nothing."""
        data = pickle.dumps(message, protocol=5)
        with contextlib.suppress(OSError):
            self._sock.send(_HEADER.pack(len(data), 0) + data, _DONTWAIT)

    def _wait_for_room(self, meanwhile: Callable[[], object] | None) -> None:
        poller = select.poll()
        poller.register(self._sock, select.POLLOUT | (select.POLLIN if meanwhile else 0))
        ((_, event),) = poller.poll()
        if meanwhile is not None and event & select.POLLIN:
            meanwhile()

    def has_come(self) -> bool:
        """Whether there is something to receive."""
        return bool(self._poller.poll(0))

    def receive(self) -> list[Message]:
        """All whole messages that have come, at least one, which is waited for.

        Each comes with its descriptors, owned by the caller.

        Raises:
            ChannelClosed: the other end is gone.
        """
        try:
            # What was read before ends in the middle of a message: whole ones were given.
            self._fill()
            while not (found := self._whole_messages()):
                self._fill()
        except ChannelClosed:
            raise
        except BaseException:
            self._break()
            raise
        return [(pickle.loads(data), fds) for data, fds in found]

    def _fill(self) -> None:
        """Append what has come, at least a byte, to what was read."""
        # Never more than one message's descriptors at a time: the system ends a read there.
        try:
            data, ancillary, flags, _ = self._sock.recvmsg(_CHUNK, _ANCILLARY)
        except ConnectionResetError as error:
            raise ChannelClosed("the other end of the channel is gone") from error
        for level, kind, content in ancillary:
            if (level, kind) == _RIGHTS:
                fds = array.array("i")
                fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
                self._fds.extend(fds)
        if flags & _TRUNCATED:
            raise OSError("channel: descriptors were lost; raise the limit on open files")
        if not data:
            raise ChannelClosed("the other end of the channel is gone")
        self._read += data

    def _whole_messages(self) -> list[tuple[bytes, list[int]]]:
        found = []
        start = 0
        while len(self._read) - start >= _HEADER.size:
            length, num_fds = _HEADER.unpack_from(self._read, start)
            begin = start + _HEADER.size
            if len(self._read) - begin < length:
                break
            start = begin + length
            found.append((bytes(self._read[begin:start]), self._fds[:num_fds]))
            del self._fds[:num_fds]
        if start:
            del self._read[:start]
        return found

    def _break(self) -> None:
        # An interrupt in the middle of a message: whatever follows would be taken for
        # the rest of it. Both ends see a closed channel from here on.
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close this end; the other one sees `ChannelClosed`."""
        self._sock.close()

"""Framed messages between a parent and its worker, over one Unix socket.

A frame is `[length: uint32][descriptors: uint32][pickle]`, then one byte that
carries the descriptors if there are any. Both ends are ours and trust each other;
nothing read from a file or a network ever comes this way.
"""

from __future__ import annotations

import contextlib
import pickle
import select
import socket
import struct
from collections.abc import Callable, Iterable
from typing import Any

_HEADER = struct.Struct("<II")


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


class Channel:
    """One end of the connection; blocking, one message at a time.

    Args:
        sock: connected stream socket; owned by the channel.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def fileno(self) -> int:
        """Descriptor to wait on for the next message."""
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
            meanwhile: called to receive a message that has come while this one does
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
        rest = memoryview(_HEADER.pack(len(data), len(fds)) + data)
        try:
            while rest:
                try:
                    rest = rest[self._sock.send(rest, socket.MSG_DONTWAIT) :]
                except BlockingIOError:
                    self._wait_for_room(meanwhile)
            while fds:
                try:
                    socket.send_fds(self._sock, [b"."], list(fds), socket.MSG_DONTWAIT)
                    break
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
            self._sock.send(_HEADER.pack(len(data), 0) + data, socket.MSG_DONTWAIT)

    def _wait_for_room(self, meanwhile: Callable[[], object] | None) -> None:
        poller = select.poll()
        poller.register(self._sock, select.POLLOUT | (select.POLLIN if meanwhile else 0))
        ((_, event),) = poller.poll()
        if meanwhile is not None and event & select.POLLIN:
            meanwhile()

    def receive(self) -> tuple[Any, list[int]]:
        """Next message and the descriptors that came with it, owned by the caller.

        Raises:
            ChannelClosed: the other end is gone.
        """
        try:
            length, num_fds = _HEADER.unpack(self._read(_HEADER.size))
            data = self._read(length)
            fds: list[int] = []
            if num_fds:
                _, fds, _, _ = socket.recv_fds(self._sock, 1, num_fds)
        except ChannelClosed:
            raise
        except BaseException:
            self._break()
            raise
        return pickle.loads(data), fds

    def _read(self, size: int) -> bytes:
        try:
            data = self._sock.recv(size)
            if len(data) == size:
                return data
            parts = bytearray(data)
            while len(parts) < size:
                data = self._sock.recv(size - len(parts))
                if not data:
                    raise ChannelClosed("the other end of the channel is gone")
                parts += data
        except ConnectionResetError as error:
            raise ChannelClosed("the other end of the channel is gone") from error
        return bytes(parts)

    def _break(self) -> None:
        # An interrupt in the middle of a message: whatever follows would be taken for
        # the rest of it. Both ends see a closed channel from here on.
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close this end; the other one sees `ChannelClosed`."""
        self._sock.close()

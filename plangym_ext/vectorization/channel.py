"""Framed messages between a parent and its worker, over one Unix socket.

A frame is `[length: uint32][descriptors: uint32][pickle]`, then one byte that
carries the descriptors if there are any. Both ends are ours and trust each other;
nothing read from a file or a network ever comes this way.
"""

from __future__ import annotations

import pickle
import socket
import struct
from typing import Any

_HEADER = struct.Struct("<II")


class ChannelClosed(ConnectionError):
    """The other end is gone."""


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

    def send(self, message: Any, fds: tuple[int, ...] = ()) -> None:
        """Send a picklable message, and duplicates of some descriptors with it.

        Raises:
            ChannelClosed: the other end is gone.
        """
        self.send_pickled(pickle.dumps(message, protocol=5), fds)

    def send_pickled(self, data: bytes, fds: tuple[int, ...] = ()) -> None:
        """`send` for a message that is pickled already."""
        try:
            self._sock.sendall(_HEADER.pack(len(data), len(fds)) + data)
            if fds:
                socket.send_fds(self._sock, [b"."], list(fds))
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ChannelClosed("the other end of the channel is gone") from error

    def receive(self) -> tuple[Any, list[int]]:
        """Next message and the descriptors that came with it, owned by the caller.

        Raises:
            ChannelClosed: the other end is gone.
        """
        length, num_fds = _HEADER.unpack(self._read(_HEADER.size))
        data = self._read(length)
        fds: list[int] = []
        if num_fds:
            _, fds, _, _ = socket.recv_fds(self._sock, 1, num_fds)
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

    def close(self) -> None:
        """Close this end; the other one sees `ChannelClosed`."""
        self._sock.close()

"""Channel: framed messages and file descriptors over a Unix socket.

A frame is `[mark: uint32][descriptors: uint32][length: uint64][content]`; the descriptors
travel with its first byte. The content is a pickle, or bytes as they are, with a mark of
their own. Both ends are ours and trust each other; nothing read from a file
or a network ever comes this way. The mark tells frames from what an env writes to a
descriptor that is not its own.
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
from typing import Any, NamedTuple

from plangym_ext.errors import StorageError, plural

_HEADER = struct.Struct("<IIQ")
_MARK, _PLAIN_MARK = (int.from_bytes(mark, "little") for mark in (b"PGX\x1a", b"PGP\x1a"))
_REQUEST = struct.Struct("<Q")
_CHUNK = 1 << 16
#: Most descriptors that one message carries.
_MAX_FDS = 4
_ANCILLARY = socket.CMSG_SPACE(_MAX_FDS * struct.calcsize("i"))
# As plain numbers: the module has flags of an enum, whose arithmetic costs microseconds.
_TRUNCATED = int(socket.MSG_CTRUNC)
_DONTWAIT = int(socket.MSG_DONTWAIT)
_RIGHTS = (int(socket.SOL_SOCKET), int(socket.SCM_RIGHTS))

Message = tuple[Any, list[int]]


class Plain(NamedTuple):
    """A message of bytes with a format known to both ends: it is not pickled.

    Attributes:
        request: number of the request that it makes or answers.
        data: whatever the two have agreed on.
    """

    request: int
    data: bytes


class ChannelClosed(ConnectionError):
    """The other end is gone."""


class ChannelDamaged(ChannelClosed):
    """Invalid data arrived; the channel was closed."""


class ChannelFull(TimeoutError):
    """The other end did not take a message in time; the channel was closed."""


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
    """One end of the connection; for one thread at a time.

    Args:
        sock: connected stream socket; owned by the channel.
        gone: descriptor that is readable once the process at the other end is gone, even if
            another one holds its end of the socket open; -1 for none.
    """

    def __init__(self, sock: socket.socket, gone: int = -1) -> None:
        self._sock, self._gone = sock, gone
        self._poller = select.poll()
        self._poller.register(sock.fileno(), select.POLLIN)
        self._read = bytearray()
        self._fds: list[int] = []
        #: Whether this end has ended the connection, for a message was left unfinished.
        self.broken_off = False

    def fileno(self) -> int:
        """Return the descriptor to wait on for the next messages."""
        return self._sock.fileno()

    def send(
        self,
        message: Any,
        fds: tuple[int, ...] = (),
        meanwhile: Callable[[], object] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Send a picklable message, or a `Plain` one, and duplicates of some descriptors with it.

        Args:
            message: what to send.
            fds: descriptors to send along.
            meanwhile: called to receive messages that have come while this one does
                not fit: two ends that only send would wait for each other for ever.
            timeout: seconds that the other end may take to make room for it; None waits
                as long as the other end lives.

        Raises:
            ChannelClosed: the other end is gone.
            ChannelFull: it has made no room in time.
        """
        if type(message) is Plain:
            mark, data = _PLAIN_MARK, _REQUEST.pack(message.request) + message.data
        else:
            mark, data = _MARK, pickle.dumps(message, protocol=5)
        # One frame, however many calls of the system it takes: nothing is sent in between. A view
        # only once a call has sent a part: most frames go out at once.
        rest: bytes | memoryview = _HEADER.pack(mark, len(fds), len(data)) + data
        left = list(fds)
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            while rest:
                try:
                    # With the first byte: so they arrive with the frame that they belong to.
                    if left:
                        sent = socket.send_fds(self._sock, [rest], left, _DONTWAIT)
                        left = []
                    else:
                        sent = self._sock.send(rest, _DONTWAIT)
                    rest = memoryview(rest)[sent:] if sent < len(rest) else b""
                except BlockingIOError:
                    self._wait_for_room(meanwhile, deadline)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ChannelClosed("the other end of the channel is gone") from error
        except BaseException:
            self.shut()
            raise

    def try_send(self, message: Any) -> None:
        """Send a small message if it can go out at once; else, or without a peer, do nothing."""
        data = pickle.dumps(message, protocol=5)
        with contextlib.suppress(OSError):
            self._sock.send(_HEADER.pack(_MARK, 0, len(data)) + data, _DONTWAIT)

    def _wait_for_room(
        self, meanwhile: Callable[[], object] | None, deadline: float | None
    ) -> None:
        poller = select.poll()
        poller.register(self._sock, select.POLLOUT | (select.POLLIN if meanwhile else 0))
        if self._gone >= 0:
            poller.register(self._gone, select.POLLIN)
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        events = dict(poller.poll(None if left is None else left * 1000))
        if not events:
            raise ChannelFull("the other end of the channel takes nothing")
        # Another process may hold the other end open, so that the socket alone would never tell.
        if self._gone in events:
            raise ChannelClosed("the process at the other end of the channel is gone")
        if meanwhile is not None and events[self._sock.fileno()] & select.POLLIN:
            meanwhile()

    def has_come(self) -> bool:
        """Return whether there is something to receive."""
        return bool(self._poller.poll(0))

    def receive(self) -> list[Message]:
        """Wait for at least one message; return all complete ones.

        Each comes with its descriptors, owned by the caller.

        Raises:
            ChannelClosed: the other end is gone.
        """
        while not (found := self.collect(0)):
            pass
        return found

    def collect(self, flags: int = _DONTWAIT) -> list[Message]:
        """Read once, and return the messages that are whole now, or none.

        Args:
            flags: of the system's call, which does not wait by default.

        Raises:
            ChannelClosed: the other end is gone.
        """
        try:
            self._fill(flags)
            return self._whole_messages()
        except ChannelDamaged:
            self.shut()
            raise
        except ChannelClosed:
            raise
        except BaseException:
            self.shut()
            raise

    def _fill(self, flags: int) -> None:
        """Append what has come to what was read; at least a byte, unless told not to wait."""
        # Never more than one message's descriptors at a time: the system ends a read there.
        try:
            data, ancillary, flags, _ = self._sock.recvmsg(_CHUNK, _ANCILLARY, flags)
        except BlockingIOError:
            return
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

    def _whole_messages(self) -> list[Message]:
        found: list[Message] = []
        start = 0
        while len(self._read) - start >= _HEADER.size:
            mark, num_fds, length = _HEADER.unpack_from(self._read, start)
            if mark not in (_MARK, _PLAIN_MARK):
                raise ChannelDamaged("something else than a message was written to the channel")
            # The rest of a frame may still be on its way; its first bytes stay here.
            begin = start + _HEADER.size
            if len(self._read) - begin < length:
                break
            start = begin + length
            message = _read(mark, bytes(self._read[begin:start]))
            found.append((message, self._fds[:num_fds]))
            del self._fds[:num_fds]
        # Once for all frames: to cut the front off moves what is left.
        if start:
            del self._read[:start]
        return found

    def shut(self) -> None:
        """End the connection: both ends see a closed channel from here on."""
        # An interrupt in the middle of a message: whatever follows would be taken for
        # the rest of it.
        self.broken_off = True
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close this end; the other one sees `ChannelClosed`."""
        self._sock.close()


def _read(mark: int, data: bytes) -> Any:
    """Return the message of a frame."""
    try:
        if mark == _PLAIN_MARK:
            (request,) = _REQUEST.unpack_from(data)
            return Plain(request, data[_REQUEST.size :])
        return pickle.loads(data)
    except Exception as error:  # whatever comes of bytes that are no pickle
        raise ChannelDamaged(f"a message cannot be read: {error!r}") from error


# File-descriptor checks before workers start ----------------------------------


#: What a worker takes for as long as it lives: its socket, its lifeline, its process.
PER_WORKER = 3
#: What there has to be beside: queues and memory of a few batches, and what starting a
#: process takes for a moment.
SPARE = 20


def check_descriptors(num_workers: int) -> None:
    """Check that there are enough file descriptors for the workers.

    Raises:
        StorageError: this process may not open that many files more.
    """
    limit, used = _limit(), _used()
    if limit is None or used is None:
        return
    needed = PER_WORKER * num_workers + SPARE
    if used + needed > limit:
        fit = max(0, (limit - used - SPARE) // PER_WORKER)
        advice = f"Use at most {fit}" if fit else "There is room for none"
        raise StorageError(
            f"{num_workers} {plural('worker', num_workers)} would need {needed} file descriptors, "
            f"{PER_WORKER} each and {SPARE} beside; {used} of the {limit} that this process may "
            f"have are in use. {advice}; close files, or raise the limit: ulimit -n "
            f"{used + needed}."
        )


def open_standard_ones() -> None:
    """Open closed standard streams (input, output, errors) as the null device.

    A socket or pipe would take such a number, and what a library prints would go there.
    """
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            # The lowest that is free: this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def _limit() -> int | None:
    try:
        import resource
    except ImportError:  # not a Unix
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def _used() -> int | None:
    try:
        return len(os.listdir("/proc/self/fd")) - 1  # the listing's own
    except OSError:
        return None

"""Records of TensorBoard's event files: scalars as protocol buffers, with checksums.

TensorBoard's own writer is imported in a third of a second, and takes most of the time of a
short round for checksums.

Sources: tensorflow/core/util/event.proto, tensorflow/core/framework/summary.proto,
tensorflow/core/lib/io/record_writer.h.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Mapping

#: Fields of `Event`, `SessionLog` and `Summary`, and their wire types.
_DOUBLE, _VARINT, _BYTES, _FLOAT = 1, 0, 2, 5
_START = 1


def version_event(seconds: float) -> bytes:
    """Return the event with which a file begins."""
    return _time(seconds) + _bytes(3, b"brain.Event:2")


def scalars_event(seconds: float, step: int, scalars: Mapping[str, float]) -> bytes:
    """Return an event with numbers by tag; they are kept as float32."""
    values = b"".join(_before(tag) + _float32(value) for tag, value in scalars.items())
    return _time(seconds) + _step(step) + _bytes(5, values)


def restart_event(seconds: float, step: int) -> bytes:
    """Return the event that has readers forget what comes from `step` on in other files."""
    return _time(seconds) + _step(step) + _bytes(7, _key(1, _VARINT) + _varint(_START))


def record(event: bytes) -> bytes:
    """Return an event as it is in the file: its length and itself, each with a checksum."""
    length = struct.pack("<Q", len(event))
    return b"".join((length, _checksum(length), event, _checksum(event)))


@functools.lru_cache(1024)
def _before(tag: str) -> bytes:
    """Return what comes before the four bytes of a number."""
    value = _bytes(1, tag.encode()) + _key(2, _FLOAT)
    return _key(1, _BYTES) + _varint(len(value) + 4) + value


def _float32(value: float) -> bytes:
    try:
        return struct.pack("<f", value)
    except OverflowError:
        # What float32 cannot hold is infinite there; `struct` refuses it.
        return struct.pack("<f", math.copysign(math.inf, value))


def _time(seconds: float) -> bytes:
    return _key(1, _DOUBLE) + struct.pack("<d", seconds)


def _step(step: int) -> bytes:
    return _key(2, _VARINT) + _varint(step)


def _bytes(field: int, content: bytes) -> bytes:
    return _key(field, _BYTES) + _varint(len(content)) + content


def _key(field: int, wire_type: int) -> bytes:
    # One byte, as all fields here are below 16.
    return bytes((field << 3 | wire_type,))


def _varint(number: int) -> bytes:
    """Return a number that is not negative, seven bits a byte, the lowest first."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _checksum(content: bytes) -> bytes:
    """Return the masked CRC32C, which is told apart from one that is part of the content."""
    # Here and not above: numba takes a while, and many runs go without.
    from plangym_ext.run.logs.crc32c import crc32c

    crc = crc32c(content)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

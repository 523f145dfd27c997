"""Serialisation of plain Python and numpy values to bytes, without pickle.

Plain are None, bool, int, float, str, bytes, numpy scalars and arrays (no objects),
numpy Generators, and tuples, lists, dicts, sets and deques of plain values. Decoding
builds these types and no others, so it runs no code that the bytes could choose.

Every value is a tag byte and what the tag says; lengths are 4 bytes, little-endian.
"""

from __future__ import annotations

import functools
import re
import struct
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np

from plangym_ext.errors import DamagedState
from plangym_ext.states.part import is_protocol
from plangym_ext.states.randomness import random_state

_U32 = struct.Struct("<I")
_F64 = struct.Struct("<d")
#: Their hashes are the same in every process.
_NUMBERS = (int, float, bool)
_SEQUENCES: dict[type, bytes] = {tuple: b"t", list: b"l", set: b"s", frozenset: b"z"}
# `np.dtype` evaluates much more than the names that `dtype.str` returns.
_DTYPE = re.compile(
    r"[<>|=]?(b1|[iu][1248]|f(2|4|8|12|16)|c(8|16|24|32)|[SUV]\d{1,9}|[Mm]8(\[\d*[A-Za-z]+\])?)"
)
#: What decoding bytes that no writer wrote may raise.
MALFORMED = (
    IndexError,
    KeyError,
    ValueError,
    TypeError,
    AttributeError,
    OverflowError,
    RuntimeError,  # as is too deep a recursion, and an end of what is read in a generator
    MemoryError,
    struct.error,
)


#: Of a whole number: to multiply larger ones takes so long that Ctrl-C waits.
MOST_BITS = 1 << 19
# Keys of a set or dict, of which that many may have one hash. Those of text and bytes are
# drawn by each process; numbers can be chosen so that each is compared with all before it.
FEW, _MOST_ALIKE = 128, 64


class NotPlain(TypeError):
    """A value holds something that is not plain; the message says where."""


def encode(value: Any, where: str = "value") -> bytes:
    """Return bytes that `decode` turns into an equal value.

    Raises:
        NotPlain: `value` or a part of it is not plain.
    """
    out = bytearray()
    _encode(value, out, where)
    return bytes(out)


def decode(data: bytes | memoryview) -> Any:
    """Return the encoded value; arrays are fresh.

    Raises:
        DamagedState: the bytes are not what `encode` wrote.
    """
    reader = _Reader(memoryview(data))
    try:
        value = reader.value()
    except MALFORMED as error:
        raise DamagedState(f"plain value: damaged at byte {reader.at}: {error}") from error
    # `encode` wrote nothing after the value.
    if reader.at != len(reader.data):
        raise DamagedState(f"plain value: {len(reader.data) - reader.at} bytes too many")
    return value


def check_hashes(keys: list[Any]) -> list[Any]:
    """Return keys of a set or dict that is to be made, if they were not chosen to collide.

    Raises:
        ValueError: they were.
    """
    if len(keys) > FEW and max(Counter(map(hash, keys)).values()) > _MOST_ALIKE:
        raise ValueError(f"more than {_MOST_ALIKE} keys of one hash")
    return keys


@functools.lru_cache(256)
def is_plain(dtype: np.dtype[Any]) -> bool:
    """Return whether arrays of a type are nothing but the bytes of their elements."""
    text = dtype.str
    return bool(_DTYPE.fullmatch(text)) and not dtype.hasobject and np.dtype(text) == dtype


@functools.lru_cache(256)
def dtype_of(text: str) -> np.dtype[Any]:
    """Return the type whose `str` is `text`.

    Raises:
        ValueError: that is not the text of a plain one.
    """
    if not isinstance(text, str) or not _DTYPE.fullmatch(text):
        raise ValueError(f"expected the name of a plain dtype, got {text!r:.40}")
    return np.dtype(text)


def array_of(data: bytes, dtype: np.dtype[Any]) -> np.ndarray:
    """Return bytes as a flat array, which may be a view of them."""
    if dtype == np.bool_:
        # Of flags of another byte than 0 and 1 numpy counts wrongly, and its memory shows.
        return np.frombuffer(data, np.uint8) != 0
    return np.frombuffer(data, dtype)


def _encode(value: Any, out: bytearray, where: str) -> None:
    kind = type(value)
    if value is None:
        out += b"N"
    elif kind is bool:
        out += b"T" if value else b"F"
    # `type`, not `isinstance`, all the way: a subclass would come back as its base.
    elif kind is int:
        if value.bit_length() > MOST_BITS:
            raise NotPlain(f"{where}: a number of {value.bit_length():,} bits")
        # A byte more than the bits need where they fill it: the sign has to fit.
        _block(out, b"i", value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))
    elif kind is float:
        out += b"f" + _F64.pack(value)
    elif kind is str:
        _block(out, b"u", value.encode())
    elif kind is bytes:
        _block(out, b"b", value)
    elif kind in _SEQUENCES:
        items = in_fixed_order(value, repr) if kind in (set, frozenset) else value
        _items(out, _SEQUENCES[kind], items, where)
    elif kind is deque:
        out += b"q"
        _encode(value.maxlen, out, where)
        _items(out, b"l", value, where)
    elif kind is dict:
        out += b"d" + _U32.pack(len(value))
        for key, item in value.items():
            # An env may make attributes of what it is given, and libraries believe those.
            if type(key) is str and is_protocol(key):
                raise NotPlain(f"{where}: the key {key!r}, a name that libraries look up")
            _encode(key, out, f"a key of {where}")
            _encode(item, out, f"{where}[{key!r}]")
    else:
        _encode_numpy(value, out, where)


def _encode_numpy(value: Any, out: bytearray, where: str) -> None:
    if isinstance(value, np.random.Generator):
        bit_generator: Any = value.bit_generator
        out += b"g"
        _encode(bit_generator.state, out, f"{where}.bit_generator.state")
    elif type(value) is np.ndarray or isinstance(value, np.generic):
        if not is_plain(value.dtype):
            raise NotPlain(f"{where}: an array of {value.dtype}")
        out += b"a" if type(value) is np.ndarray else b"n"
        _block(out, b"u", value.dtype.str.encode())
        _encode(tuple(value.shape), out, where)
        _block(out, b"b", value.tobytes())
    else:
        raise NotPlain(f"{where}: a {type(value).__module__}.{type(value).__qualname__}")


def _block(out: bytearray, tag: bytes, data: bytes) -> None:
    out += tag + _U32.pack(len(data)) + data


def in_fixed_order(value: Collection[Any], key: Callable[[Any], Any]) -> list[Any]:
    """Return the elements of a set in the order in which a state holds them.

    It is sorted, so that equal states are equal bytes. Numbers in a frozenset may collide, and then
    lie in the order in which they came: the state holds that one.

    Args:
        value: a set or frozenset.
        key: of the sort.

    Raises:
        NotPlain: a frozenset that is made of these elements has another order.
    """
    found = sorted(value, key=key)
    if type(value) is not frozenset or not all(type(one) in _NUMBERS for one in value):
        return found
    order = [*value]
    for tried in (found, order):
        if [*frozenset(tried)] == order:
            return tried
    raise NotPlain(f"a frozenset of {len(order)} numbers that has lost others; keep a tuple")


def _items(out: bytearray, tag: bytes, items: Iterable[Any], where: str) -> None:
    # The count goes first, and an iterator has none.
    items = list(items)
    out += tag + _U32.pack(len(items))
    for i, item in enumerate(items):
        _encode(item, out, f"{where}[{i}]")


class _Reader:
    """Reads one value after another."""

    def __init__(self, data: memoryview) -> None:
        self.data, self.at = data, 0
        self._readers: dict[int, Callable[[], Any]] = {
            ord("N"): lambda: None,
            ord("T"): lambda: True,
            ord("F"): lambda: False,
            ord("i"): self._int,
            ord("f"): lambda: _F64.unpack(self._take(8))[0],
            ord("u"): lambda: self._block().decode(),
            ord("b"): self._block,
            ord("t"): lambda: tuple(self._items()),
            ord("l"): self._items,
            ord("s"): lambda: set(check_hashes(self._items())),
            ord("z"): lambda: frozenset(check_hashes(self._items())),
            ord("q"): lambda: self._deque(),
            ord("d"): self._dict,
            ord("g"): self._generator,
            ord("a"): self._array,
            ord("n"): lambda: self._array()[()],
        }

    def value(self) -> Any:
        tag = self._take(1)[0]
        # A tag is all that chooses what is built, and it chooses among these alone.
        if tag not in self._readers:
            raise ValueError(f"unknown tag {tag}")
        return self._readers[tag]()

    def _take(self, size: int) -> bytes:
        if self.at + size > len(self.data):
            raise ValueError(f"{size} bytes expected, {len(self.data) - self.at} left")
        self.at += size
        return self.data[self.at - size : self.at].tobytes()

    def _count(self) -> int:
        return int(_U32.unpack(self._take(4))[0])

    def _block(self) -> bytes:
        return self._take(self._count())

    def _items(self) -> list[Any]:
        return [self.value() for _ in range(self._count())]

    def _int(self) -> int:
        data = self._block()
        if len(data) > MOST_BITS // 8 + 1:
            raise ValueError(f"a number of {len(data):,} bytes")
        return int.from_bytes(data, "little", signed=True)

    def _deque(self) -> deque[Any]:
        maxlen = self.value()
        return deque(self.value(), maxlen=maxlen)

    def _dict(self) -> dict[Any, Any]:
        pairs = [(self.value(), self.value()) for _ in range(self._count())]
        check_hashes([key for key, _ in pairs])
        made = dict(pairs)
        for key in made:
            if type(key) is str and is_protocol(key):
                raise ValueError(f"the key {key!r}, a name that libraries look up")
        # An env sets such a state itself, and numpy takes it as it is.
        if made.get("bit_generator") in random_state.KINDS:
            random_state.check(made)
        return made

    def _array(self) -> np.ndarray:
        dtype, shape, data = dtype_of(self.value()), self.value(), self.value()
        # A copy: a view of the bytes could not be written to.
        return array_of(data, dtype).reshape(shape).copy()

    def _generator(self) -> np.random.Generator:
        return random_state.generator(self.value())

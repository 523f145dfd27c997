"""Object graphs from bytes: the inverse of `graph`.

Instances are built without their constructors, and only of classes that the caller
finds for it, so bytes from elsewhere cannot choose what code runs.
"""

from __future__ import annotations

import array
import functools
import json
import struct
import types
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import numpy as np

from plangym_ext.core import plain
from plangym_ext.core.graph import RANDOM_TYPES, GraphWriter, Tag, is_simple
from plangym_ext.core.plain import NotPlain
from plangym_ext.errors import DamagedState

_BIT_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
_MALFORMED = (
    IndexError,
    KeyError,
    ValueError,
    TypeError,
    AttributeError,
    UnicodeError,
    OverflowError,
    RecursionError,
    MemoryError,
)


def _nothing(layer: int, name: str) -> Any:  # noqa: ARG001 - there is none
    return None


class GraphReader:
    """Reads the values of one graph in the order in which they were put.

    Args:
        data: what `GraphWriter.data` returned.
        named: the object of a `Name`, as it is now.
        found: the class or function of a module and a qualified name. It raises if
            the graph has no business with it, before importing anything.
        shared: the object that a layer holds under a name and that the graph may share, as it
            is now; None if there is none.

    Raises:
        DamagedState: the bytes are no graph.
    """

    def __init__(
        self,
        data: bytes,
        named: Callable[[int, str], Any],
        found: Callable[[str, str], Any],
        shared: Callable[[int, str], Any] = _nothing,
    ) -> None:
        self._named, self._shared = named, shared
        try:
            sizes = array.array("I", data[:16])
            ends = [16]
            for size in sizes:
                ends.append(ends[-1] + size)
            if len(sizes) != 4 or ends[-1] != len(data):
                raise ValueError(f"{len(data)} bytes, but its parts say {ends[-1]}")
            self._texts, classes, references = _table(data[ends[0] : ends[1]])
            self._ops = iter(array.array("i", data[ends[1] : ends[2]]).tolist())
            self._floats = iter(array.array("d", data[ends[2] : ends[3]]).tolist())
            self._blobs, self._at = memoryview(data)[ends[3] :], 0
        except _MALFORMED as error:
            raise DamagedState(f"object graph: {error}") from error
        self._classes = [(_simple(found(*cls)), names) for cls, names in classes]
        self._references = [found(*thing) for thing in references]
        self._seen: list[Any] = []
        self._readers = [getattr(self, f"_get_{tag.name.lower()}") for tag in Tag]

    def get(self) -> Any:
        """The next value.

        Raises:
            DamagedState: the bytes are not what a writer wrote.
        """
        try:
            return self._value()
        except StopIteration:
            raise DamagedState("object graph: it ends too early") from None
        except _MALFORMED as error:
            raise DamagedState(f"object graph: {error}") from error

    def _value(self) -> Any:
        return self._readers[next(self._ops)]()

    def _values(self, count: int) -> list[Any]:
        ops, readers = self._ops, self._readers
        return [readers[next(ops)]() for _ in range(count)]

    def _text(self) -> str:
        return self._texts[next(self._ops)]

    def _blob(self, size: int) -> bytes:
        if size < 0 or self._at + size > len(self._blobs):
            raise ValueError(f"{size} bytes expected, {len(self._blobs) - self._at} left")
        self._at += size
        return bytes(self._blobs[self._at - size : self._at])

    # One method a tag -------------------------------------------------------------

    def _get_none(self) -> None:
        return None

    def _get_true(self) -> bool:
        return True

    def _get_false(self) -> bool:
        return False

    def _get_int(self) -> int:
        return next(self._ops)

    def _get_big(self) -> int:
        return int(self._text())

    def _get_float(self) -> float:
        return next(self._floats)

    def _get_text(self) -> str:
        return self._texts[next(self._ops)]

    def _get_bytes(self) -> bytes:
        return self._blob(next(self._ops))

    def _get_scalar(self) -> Any:
        dtype = np.dtype(self._text())
        return np.frombuffer(self._blob(next(self._ops)), dtype)[0]

    def _get_tuple(self) -> tuple[Any, ...]:
        return tuple(self._values(next(self._ops)))

    def _get_frozenset(self) -> frozenset[Any]:
        return frozenset(plain.decode(self._blob(next(self._ops))))

    def _get_enum(self) -> Any:
        return self._references[next(self._ops)][self._text()]

    def _get_reference(self) -> Any:
        return self._references[next(self._ops)]

    def _get_named(self) -> Any:
        return self._named(next(self._ops), self._text())

    def _get_seen(self) -> Any:
        return self._seen[next(self._ops)]

    def _get_list(self) -> list[Any]:
        made: list[Any] = []
        self._seen.append(made)
        made.extend(self._values(next(self._ops)))
        return made

    def _get_set(self) -> set[Any]:
        made = set(plain.decode(self._blob(next(self._ops))))
        self._seen.append(made)
        return made

    def _get_deque(self) -> deque[Any]:
        maxlen = next(self._ops)
        made: deque[Any] = deque(maxlen=None if maxlen < 0 else maxlen)
        self._seen.append(made)
        made.extend(self._values(next(self._ops)))
        return made

    def _get_dict(self) -> dict[Any, Any]:
        return self._filled({})

    def _get_ordered(self) -> dict[Any, Any]:
        return self._filled(OrderedDict())

    def _filled(self, made: dict[Any, Any]) -> dict[Any, Any]:
        self._seen.append(made)
        ops, readers = self._ops, self._readers
        for _ in range(next(ops)):
            key = readers[next(ops)]()
            made[key] = readers[next(ops)]()
        return made

    def _get_array(self) -> np.ndarray:
        ops = self._ops
        dtype, order = np.dtype(self._text()), "F" if next(ops) else "C"
        shape = [next(ops) for _ in range(next(ops))]
        size = dtype.itemsize
        for length in shape:
            size *= length
        flat = np.frombuffer(self._blob(size), dtype)
        made = flat.reshape(shape, order=order).copy(order)  # type: ignore[call-overload]
        self._seen.append(made)
        return made

    def _get_random(self) -> Any:
        layer, name = next(self._ops), self._text()
        data = self._blob(next(self._ops))
        live = self._named(layer, name) if layer >= 0 else None
        made = _restored(live, data)
        self._seen.append(made)
        return made

    def _get_method(self) -> Any:
        function = self._references[next(self._ops)]
        if not isinstance(function, types.FunctionType):
            raise TypeError(f"{function!r} is no function")
        return types.MethodType(function, self._value())

    def _get_shared(self) -> Any:
        """What another layer holds, if it holds there what the graph says, else that."""
        live = self._shared(next(self._ops), self._text())
        number = len(self._seen)
        made = self._value()
        if alike(live, made):
            made = self._seen[number] = live
        return made

    def _get_object(self) -> Any:
        cls, names = self._classes[next(self._ops)]
        made = object.__new__(cls)
        self._seen.append(made)
        attributes, ops, readers = vars(made), self._ops, self._readers
        for name in names:
            attributes[name] = readers[next(ops)]()
        return made


@functools.lru_cache(maxsize=64)
def _table(
    data: bytes,
) -> tuple[list[str], list[tuple[tuple[str, str], list[str]]], list[tuple[str, str]]]:
    """The first block; states of one env mostly share it."""
    texts, classes, references = json.loads(data)
    return (
        texts,
        [((module, name), names) for module, name, *names in classes],
        [(module, name) for module, name in references],
    )


def alike(one: Any, two: Any) -> bool:
    """Whether two objects of one type are the same data."""
    if type(one) is not type(two):
        return False
    graphs = []
    for value in (one, two):
        writer = GraphWriter({}, {})
        try:
            writer.put(value)
        except NotPlain:
            return False
        graphs.append(writer.data())
    return graphs[0] == graphs[1]


def _simple(cls: Any) -> Any:
    if not (isinstance(cls, type) and is_simple(cls)):
        raise DamagedState(f"object graph: {cls!r} is more than its attributes")
    return cls


def _restored(live: Any, data: bytes) -> Any:
    """A generator in the given state: the live one if it is of that kind."""
    if data[:1] == b"P":
        if not (isinstance(live, np.random.Generator) and _kind(live) == "PCG64"):
            live = np.random.Generator(np.random.PCG64(0))
        words = [int.from_bytes(data[a:b], "little") for a, b in ((1, 17), (17, 33))]
        live.bit_generator.state = {
            "bit_generator": "PCG64",
            "state": {"state": words[0], "inc": words[1]},
            "has_uint32": int.from_bytes(data[33:37], "little"),
            "uinteger": int.from_bytes(data[37:41], "little"),
        }
        return live
    if data[:1] == b"M":
        if not (isinstance(live, np.random.RandomState) and _kind(live) == "MT19937"):
            live = np.random.RandomState(0)
        position, has_gauss, gauss = struct.unpack_from("<iid", data, 1)
        keys = np.frombuffer(data, np.uint32, 624, 17)
        live.set_state(("MT19937", keys, position, has_gauss, gauss))
        return live
    state = plain.decode(data[1:])
    kind = state["bit_generator"]
    if kind not in _BIT_GENERATORS:
        raise ValueError(f"unknown bit generator {kind!r}")
    legacy = "has_gauss" in state
    expected = RANDOM_TYPES[legacy]
    if not (isinstance(live, expected) and _kind(live) == kind):
        live = expected(getattr(np.random, kind)(0))
    if legacy:
        live.set_state(state)
    else:
        live.bit_generator.state = state
    return live


def _kind(generator: Any) -> str:
    """Name of a generator's bit generator."""
    legacy = isinstance(generator, np.random.RandomState)
    return type(generator._bit_generator if legacy else generator.bit_generator).__name__

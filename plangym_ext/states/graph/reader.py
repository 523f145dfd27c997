"""Object graphs from bytes: the inverse of `graph`.

Instances are built without their constructors, and only of classes that the caller's
`Finder` grants, so bytes from elsewhere cannot choose what code runs.
"""

from __future__ import annotations

import array
import enum
import functools
import json
import types
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from plangym_ext.errors import DamagedState, StateError
from plangym_ext.states import plain, random_bytes
from plangym_ext.states.graph.array_views import view_at
from plangym_ext.states.graph.writer import GraphWriter, Tag, is_simple
from plangym_ext.states.nameable import check_key, hashing, is_method
from plangym_ext.states.plain import NotPlain


class Finder(Protocol):
    """Finds what a graph names, or raises `StateError`; see `nameable`.

    Attributes:
        careful: whether the graph is not trusted, so that none of the code of the
            classes that it names may run.
    """

    careful: bool

    def built(self, row: tuple[str, ...]) -> type:
        """Return the class of which an instance is to be built: module, name, its attributes."""

    def referred(self, module: str, name: str) -> Any:
        """Return the class, enumeration or function of that name."""


def _nothing(layer: int, name: str) -> Any:  # noqa: ARG001 - there is none
    return None


class GraphReader:
    """Reads the values of one graph in the order in which they were put.

    Args:
        data: what `GraphWriter.data` returned.
        named: the object of a `Name`, as it is now. For a name of which nothing but the
            state of a generator is wanted it may return None.
        finder: of what else the graph names.
        shared: the object that a layer holds under a name and that the graph may share, as it
            is now; None if there is none.

    Raises:
        DamagedState: the bytes are no graph.
        StateError: whatever `finder` raises.
    """

    def __init__(
        self,
        data: bytes,
        named: Callable[[int, str], Any],
        finder: Finder,
        shared: Callable[[int, str], Any] = _nothing,
    ) -> None:
        self._named, self._shared = named, shared
        try:
            # Four sizes, then texts, numbers, floats and bytes: checked before any is read.
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
        except plain.MALFORMED as error:
            raise DamagedState(f"object graph: {error}") from error
        # Granted before anything is built: what is refused leaves nothing half made.
        self._classes = [(_simple(finder.built(row)), row[2:]) for row in classes]
        self._references = [finder.referred(*thing) for thing in references]
        #: Whether keys have to be looked at before they are hashed.
        self._careful = finder.careful
        self._wary = finder.careful and any(hashing(cls) for cls, _ in self._classes)
        self._seen: list[Any] = []
        self._generators: list[tuple[Any, dict[str, Any]]] = []
        # By the number of the tag: a list is looked up faster than a chain of comparisons.
        self._readers = [getattr(self, f"_get_{tag.name.lower()}") for tag in Tag]

    def get(self) -> Any:
        """Return the next value.

        Raises:
            DamagedState: the bytes are not what a writer wrote.
            UntrustedState: a key of a dict would run code of its class.
        """
        try:
            return self._value()
        except StopIteration:
            # Of an iterator that has run out.
            raise DamagedState("object graph: it ends too early") from None
        except StateError:
            raise
        except plain.MALFORMED as error:
            raise DamagedState(f"object graph: {error}") from error

    def end(self) -> None:
        """Set the generators that the graph holds, after the last value.

        Raises:
            DamagedState: more follows than a writer wrote, or a generator cannot be in
                such a state.
        """
        left = (*self._ops, *self._floats)
        if left or self._at != len(self._blobs):
            raise DamagedState("object graph: more follows after its end")
        try:
            for live, state in self._generators:
                random_bytes.set_state(live, state)
        except plain.MALFORMED as error:
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
        # Copied: what is built must not hold all bytes of the graph.
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
        return int(self._text(), 0)

    def _get_float(self) -> float:
        return next(self._floats)

    def _get_text(self) -> str:
        return self._texts[next(self._ops)]

    def _get_bytes(self) -> bytes:
        return self._blob(next(self._ops))

    def _get_scalar(self) -> Any:
        dtype = plain.dtype_of(self._text())
        return np.frombuffer(self._blob(next(self._ops)), dtype)[0]

    def _get_tuple(self) -> tuple[Any, ...]:
        return tuple(self._values(next(self._ops)))

    def _get_frozenset(self) -> frozenset[Any]:
        return frozenset(plain.decode(self._blob(next(self._ops))))

    def _get_enum(self) -> Any:
        kind = self._references[next(self._ops)]
        if not (isinstance(kind, type) and issubclass(kind, enum.Enum)):
            raise TypeError(f"{kind!r} is no enumeration")
        # Not `kind[...]`, which a metaclass of the enumeration may override.
        return kind._member_map_[self._text()]

    def _get_reference(self) -> Any:
        return self._references[next(self._ops)]

    def _get_named(self) -> Any:
        found = self._named(next(self._ops), self._text())
        if found is None or isinstance(found, random_bytes.RANDOM_TYPES):
            raise ValueError("it refers to an attribute that is not there, or is a state itself")
        return found

    def _get_seen(self) -> Any:
        return self._seen[next(self._ops)]

    def _get_list(self) -> list[Any]:
        # Known before it is filled: it may hold itself.
        made: list[Any] = []
        self._seen.append(made)
        made.extend(self._values(next(self._ops)))
        return made

    def _get_set(self) -> set[Any]:
        made = set(plain.decode(self._blob(next(self._ops))))
        self._seen.append(made)
        return made

    def _get_deque(self) -> deque[Any]:
        # -1 stands for none.
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
        ops, readers, wary = self._ops, self._readers, self._wary
        for _ in range(next(ops)):
            key = readers[next(ops)]()
            if wary:
                check_key(key)
            made[key] = readers[next(ops)]()
        return made

    def _get_array(self) -> np.ndarray:
        ops = self._ops
        dtype, order = plain.dtype_of(self._text()), "F" if next(ops) else "C"
        shape = [next(ops) for _ in range(next(ops))]
        # As Python ints, which do not wrap: a damaged shape must not come to a small size.
        size = dtype.itemsize
        for length in shape:
            size *= length
        flat = np.frombuffer(self._blob(size), dtype)
        made = flat.reshape(shape, order=order).copy(order)  # type: ignore[call-overload]
        self._seen.append(made)
        return made

    def _get_view(self) -> np.ndarray:
        ops = self._ops
        dtype, dimensions, offset = plain.dtype_of(self._text()), next(ops), next(ops)
        shape = tuple(next(ops) for _ in range(dimensions))
        strides = tuple(next(ops) for _ in range(dimensions))
        number = len(self._seen)
        # Numbered before its owner, as it was written.
        self._seen.append(None)
        made = self._seen[number] = view_at(self._value(), dtype, (offset, shape, strides))
        return made

    def _get_random(self) -> Any:
        layer, name = next(self._ops), self._text()
        state = random_bytes.state_of(self._blob(next(self._ops)))
        live = self._named(layer, name) if layer >= 0 else None
        made = live if random_bytes.holds(live, state) else random_bytes.generator(state)
        if any(made is other for other, _ in self._generators):
            raise ValueError(f"two states for the generator {name!r}")
        # Set at the end, so that a graph which is refused has changed nothing.
        self._generators.append((made, state))
        self._seen.append(made)
        return made

    def _get_method(self) -> Any:
        function = self._references[next(self._ops)]
        if not isinstance(function, types.FunctionType):
            raise TypeError(f"{function!r} is no function")
        owner = self._value()
        if self._careful and not is_method(function, owner):
            raise ValueError(f"{function!r} is no method of a {type(owner).__qualname__}")
        return types.MethodType(function, owner)

    def _get_shared(self) -> Any:
        """Return what another layer holds, if it holds there what the graph says, else that."""
        live = self._shared(next(self._ops), self._text())
        number = len(self._seen)
        made = self._value()
        if alike(live, made):
            made = self._seen[number] = live
        return made

    def _get_object(self) -> Any:
        cls, names = self._classes[next(self._ops)]
        # Without its constructor, which is code that the bytes would choose to run.
        made = object.__new__(cls)
        self._seen.append(made)
        attributes, ops, readers = vars(made), self._ops, self._readers
        for name in names:
            attributes[name] = readers[next(ops)]()
        return made


@functools.lru_cache(maxsize=64)
def _table(
    data: bytes,
) -> tuple[list[str], list[tuple[str, ...]], list[tuple[str, str]]]:
    """Return the first block; states of one env mostly share it."""
    texts, classes, references = json.loads(data)
    for row in (texts, *classes, *references):
        if not (isinstance(row, list) and all(isinstance(text, str) for text in row)):
            raise TypeError("its table holds more than texts")
    if not all(len(row) >= len(("module", "name")) for row in classes):
        raise ValueError("a class without a name")
    return texts, list(map(tuple, classes)), [(module, name) for module, name in references]


def alike(one: Any, two: Any) -> bool:
    """Return whether two objects of one type are the same data."""
    # Compared as graphs: `==` may be an object's own, or an array's, which is no bool.
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

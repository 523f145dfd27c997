"""Object graphs as bytes, without pickle: what snapshots are made of.

A graph holds plain values (see `plain`), instances of Python classes with their
attributes, and references to classes, functions and the env's own layers. Objects
that are shared stay shared, and equal graphs give equal bytes: mutable objects are
distinguished by identity, all others by value alone. `reader` is the way back.

Layout: the sizes of four blocks as uint32, then the blocks. A JSON table of texts, of
classes with their attribute names, and of references; the graph, depth first, as
int32 tags and counts; its float64 numbers; the bytes of its arrays.
"""

from __future__ import annotations

import array
import contextlib
import copyreg
import enum
import functools
import importlib
import json
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from enum import IntEnum, auto
from typing import Any

import numpy as np

from plangym_ext.states import plain
from plangym_ext.states.graph.array_views import Ties, place_of
from plangym_ext.states.plain import NotPlain
from plangym_ext.states.random_bytes import RANDOM_TYPES, random_bytes

#: A named object: the index of a layer and one of its attributes, "" for the layer.
Name = tuple[int, str]
#: A class and the names of the attributes that an instance of it has.
Shape = tuple[Any, tuple[str, ...]]


class Tag(IntEnum):
    """What follows in the graph."""

    NONE = 0
    TRUE = auto()
    FALSE = auto()
    INT = auto()  # value
    BIG = auto()  # text
    FLOAT = auto()
    TEXT = auto()  # text
    BYTES = auto()  # size
    SCALAR = auto()  # dtype, size
    TUPLE = auto()  # count, items
    FROZENSET = auto()  # size
    ENUM = auto()  # class, name
    REFERENCE = auto()  # reference
    NAMED = auto()  # layer, name
    SEEN = auto()  # number; objects below are numbered as they come
    LIST = auto()  # count, items
    SET = auto()  # size
    DEQUE = auto()  # maxlen or -1, count, items
    DICT = auto()  # count, keys and values
    ORDERED = auto()  # the same
    ARRAY = auto()  # dtype, whether columns come first, dimensions
    RANDOM = auto()  # layer or -1, name, size
    OBJECT = auto()  # class, attributes
    SHARED = auto()  # layer, name, value
    METHOD = auto()  # function, what it is bound to
    VIEW = auto()  # dtype, dimensions, offset, lengths, strides, the array that it is a view of


# As plain ints, which are several times faster than members of the class.
(
    _NONE,
    _TRUE,
    _FALSE,
    _INT,
    _BIG,
    _FLOAT,
    _TEXT,
    _BYTES,
    _SCALAR,
    _TUPLE,
    _FROZENSET,
    _ENUM,
    _REFERENCE,
    _NAMED,
    _SEEN,
    _LIST,
    _SET,
    _DEQUE,
    _DICT,
    _ORDERED,
    _ARRAY,
    _RANDOM,
    _OBJECT,
    _SHARED,
    _METHOD,
    _VIEW,
) = map(int, Tag)

# Windows, surfaces and clocks show the state; they are no part of it.
_DRAWING_MODULES = ("pygame", "pyglet", "OpenGL", "glfw", "matplotlib", "moviepy", "cv2")
# Rectangles and vectors of such a module are data: a game may keep its players in them.
_DATA_MODULES = ("pygame.rect", "pygame.math", "pygame.color", "pygame.mask")
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: not of a fixed place in an extension
#: Of an instance with attributes and weak references, and nothing else.
_PLAIN_SIZE = object.__basicsize__ + 16


@functools.cache
def is_drawing(kind: Any) -> bool:
    """Return whether instances of a class only show things."""
    module = str(kind.__module__)
    return module.partition(".")[0] in _DRAWING_MODULES and module not in _DATA_MODULES


@functools.cache
def is_simple(kind: Any) -> bool:
    """Return whether an instance's attributes are all there is to it."""
    return bool(
        all(_is_of_python(cls) for cls in kind.__mro__[:-1])
        and kind.__dictoffset__ != 0
        # What an extension keeps beside the attributes, such as the numbers of a `random.Random`.
        and kind.__basicsize__ <= _PLAIN_SIZE
        and not kind.__itemsize__
        and not copyreg._slotnames(kind)  # type: ignore[attr-defined]
    )


def _is_of_python(cls: Any) -> bool:
    """Return whether a class was made by a class statement; extensions make such types, too."""
    made = vars(cls).get("__new__")
    return (
        bool(cls.__flags__ & _HEAP_TYPE)
        and cls.__module__ != "builtins"
        and (made is None or isinstance(made, staticmethod | types.FunctionType))
    )


@functools.cache
def imported(module: str, name: str) -> Any:
    """Return the object of that qualified name.

    Raises:
        ImportError, AttributeError, ValueError: there is none.
    """
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def name_of(thing: Any) -> tuple[str, str]:
    """Return the module and qualified name of a class or function."""
    return str(getattr(thing, "__module__", "")), str(getattr(thing, "__qualname__", ""))


class GraphWriter:
    """Writes one graph.

    Args:
        named: objects by `id` that are named, not written. A numpy generator among
            them is written, to be set in place.
        known: classes and functions by `name_of`; others must be importable.
        learns: whether others are added to `known` instead.
        shared: objects by `id` that a layer holds too whose attributes are captured in another
            way. They are written, with where that layer holds them.
        tied: arrays by `id` whose views are written as views of them.
    """

    def __init__(
        self,
        named: dict[int, Name],
        known: dict[tuple[str, str], Any],
        *,
        learns: bool = False,
        shared: dict[int, Name] | None = None,
        tied: Iterable[int] = (),
    ) -> None:
        self._named, self._known, self._learns = named, known, learns
        self._shared = shared or {}
        self._ties = Ties((*tied, *self._shared))
        self._ops: list[int] = []
        self._floats: list[float] = []
        self._blobs: list[bytes] = []
        self._texts: dict[str, int] = {}
        self._classes: dict[Shape, int] = {}
        self._references: dict[Any, int] = {}
        self._seen: dict[int, int] = {}

    @property
    def shapes(self) -> Iterable[Shape]:
        """The classes whose instances the graph holds, with their attributes."""
        return self._classes

    @property
    def tied(self) -> set[int]:
        """Arrays by `id` in whose memory others lie; if there are any, write with them again."""
        return self._ties.found

    @property
    def references(self) -> Iterable[Any]:
        """What else the graph refers to: classes, enumerations and functions."""
        return self._references

    def data(self) -> bytes:
        """Return everything that was `put`."""
        table = (
            list(self._texts),
            [[*name_of(cls), *names] for cls, names in self._classes],
            [name_of(thing) for thing in self._references],
        )
        blocks = (
            json.dumps(table).encode(),
            array.array("i", self._ops).tobytes(),
            array.array("d", self._floats).tobytes(),
            b"".join(self._blobs),
        )
        return array.array("I", map(len, blocks)).tobytes() + b"".join(blocks)

    def put(self, value: Any) -> None:
        """Append a value.

        Raises:
            NotPlain: it holds something that has no place in a graph.
        """
        writer = _WRITERS.get(type(value))
        if writer is not None:
            writer(self, value)
        else:
            self._put_rare(value, type(value))

    def _put_items(self, items: Iterable[Any]) -> None:
        # Most of a graph passes here, so the commonest cases are decided in place.
        ops, seen, writers = self._ops, self._seen, _WRITERS
        for item in items:
            writer = writers.get(type(item))
            if writer is not None:
                writer(self, item)
            elif id(item) in seen:
                ops += (_SEEN, seen[id(item)])
            else:
                self._put_rare(item, type(item))

    def put_all(self, layers: list[dict[str, Any]], names: list[str]) -> None:
        """Append a list of dicts of attributes.

        Raises:
            NotPlain: as `put`, with the name of the layer and the attribute.
        """
        self._again(layers)
        self._ops += (_LIST, len(layers))
        for attributes, layer in zip(layers, names, strict=True):
            self._again(attributes)
            self._ops += (_DICT, len(attributes))
            for name, value in attributes.items():
                self._put_text(name)
                try:
                    self.put(value)
                except NotPlain as error:
                    raise NotPlain(f"{layer}.{name} holds {error}") from None

    def _put_rare(self, value: Any, kind: Any) -> None:
        if isinstance(value, np.generic) and plain.is_plain(value.dtype):
            self._ops += (_SCALAR, self._text(value.dtype.str), self._blob(value.tobytes()))
        elif isinstance(value, enum.Enum):
            self._put_enum(value, kind)
        elif isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
            self._ops += (_REFERENCE, self._reference(value))
        elif kind is types.MethodType and isinstance(value.__func__, types.FunctionType):
            self._ops += (_METHOD, self._reference(value.__func__))
            self.put(value.__self__)
        elif isinstance(value, RANDOM_TYPES):
            self._put_random(value)
        elif is_drawing(kind):
            self._ops.append(_NONE)
        elif self._again(value):
            pass
        elif is_simple(kind):
            self._put_object(value, kind)
        else:
            raise NotPlain(f"a {kind.__module__}.{kind.__qualname__}")

    def _again(self, value: Any) -> bool:
        """Return whether the object is named or was written before; else it is numbered."""
        key = id(value)
        if key in self._seen:
            self._ops += (_SEEN, self._seen[key])
            return True
        if key in self._named:
            layer, name = self._named[key]
            self._ops += (_NAMED, layer, self._text(name))
            return True
        if key in self._shared:
            layer, name = self._shared[key]
            self._ops += (_SHARED, layer, self._text(name))
        self._seen[key] = len(self._seen)
        return False

    def _put_object(self, value: Any, kind: Any) -> None:
        attributes = vars(value)
        shape = (kind, tuple(attributes))
        index = self._classes.get(shape)
        if index is None:
            self._check(kind)
            index = self._classes[shape] = len(self._classes)
        self._ops += (_OBJECT, index)
        self._put_items(attributes.values())

    def _put_enum(self, value: Any, kind: Any) -> None:
        if kind._member_map_.get(value.name) is not value:  # several flags at once
            raise NotPlain(f"{value!r}, which is no member of its class")
        self._ops += (_ENUM, self._reference(kind), self._text(value.name))

    def _put_random(self, value: Any) -> None:
        key = id(value)
        if key in self._seen:
            self._ops += (_SEEN, self._seen[key])
            return
        self._seen[key] = len(self._seen)
        layer, name = self._named.get(key, (-1, ""))
        self._ops += (_RANDOM, layer, self._text(name), self._blob(random_bytes(value)))

    def _put_array(self, value: np.ndarray) -> None:
        if not plain.is_plain(value.dtype):
            raise NotPlain(f"an array of {value.dtype}")
        if self._again(value):
            return
        owner = self._ties.owner(value)
        if owner is not None:
            self._put_view(value, owner)
            return
        columns_first = value.flags.f_contiguous and not value.flags.c_contiguous
        dtype = self._text(value.dtype.str)
        self._ops += (_ARRAY, dtype, columns_first, value.ndim, *value.shape)
        self._blobs.append(value.tobytes("F" if columns_first else "C"))

    def _put_view(self, value: np.ndarray, owner: np.ndarray) -> None:
        offset, shape, strides = place_of(value, owner)
        dtype = self._text(value.dtype.str)
        self._ops += (_VIEW, dtype, len(shape), offset, *shape, *strides)
        self._put_array(owner)

    def _text(self, value: str) -> int:
        return self._texts.setdefault(value, len(self._texts))

    def _blob(self, data: bytes) -> int:
        self._blobs.append(data)
        return len(data)

    def _reference(self, thing: Any) -> int:
        if thing not in self._references:
            self._check(thing)
            self._references[thing] = len(self._references)
        return self._references[thing]

    def _check(self, thing: Any) -> None:
        """Make sure that a reader will find the thing by its name."""
        name = name_of(thing)
        found = self._known.get(name)
        if found is None and self._learns:
            found = self._known[name] = thing
        if found is None:
            with contextlib.suppress(ImportError, AttributeError, ValueError):
                found = imported(*name)
        if found is not thing:
            raise NotPlain(f"{thing!r}, which is not what is found as {'.'.join(name)}")

    # Values of the builtin types ------------------------------------------------

    def _put_int(self, value: int) -> None:
        if -(2**31) <= value < 2**31:
            self._ops += (_INT, value)
        else:
            # Not in decimals: of more than some thousands Python makes no text.
            self._ops += (_BIG, self._text(hex(value)))

    def _put_float(self, value: float) -> None:
        self._ops.append(_FLOAT)
        self._floats.append(value)

    def _put_text(self, value: str) -> None:
        texts = self._texts
        self._ops += (_TEXT, texts.setdefault(value, len(texts)))

    def _put_bytes(self, value: bytes) -> None:
        self._ops += (_BYTES, self._blob(value))

    def _put_tuple(self, value: tuple[Any, ...]) -> None:
        self._ops += (_TUPLE, len(value))
        self._put_items(value)

    def _put_list(self, value: list[Any]) -> None:
        if not self._again(value):
            self._ops += (_LIST, len(value))
            self._put_items(value)

    def _put_deque(self, value: deque[Any]) -> None:
        if not self._again(value):
            self._ops += (_DEQUE, -1 if value.maxlen is None else value.maxlen, len(value))
            self._put_items(value)

    def _put_dict(self, value: dict[Any, Any]) -> None:
        if not self._again(value):
            self._ops += (_ORDERED if type(value) is OrderedDict else _DICT, len(value))
            for key, item in value.items():
                self.put(key)
                self.put(item)

    def _put_set(self, value: Any) -> None:
        if type(value) is frozenset:
            self._ops += (_FROZENSET, self._blob(plain.encode(value, "set")))
        elif not self._again(value):
            # A set has no order of its own; a fixed one makes equal states equal bytes.
            self._ops += (_SET, self._blob(plain.encode(value, "set")))


_WRITERS: dict[type, Callable[[GraphWriter, Any], None]] = {
    type(None): lambda writer, _: writer._ops.append(_NONE),
    bool: lambda writer, value: writer._ops.append(_TRUE if value else _FALSE),
    int: GraphWriter._put_int,
    float: GraphWriter._put_float,
    str: GraphWriter._put_text,
    bytes: GraphWriter._put_bytes,
    tuple: GraphWriter._put_tuple,
    list: GraphWriter._put_list,
    deque: GraphWriter._put_deque,
    dict: GraphWriter._put_dict,
    OrderedDict: GraphWriter._put_dict,
    set: GraphWriter._put_set,
    frozenset: GraphWriter._put_set,
    np.ndarray: GraphWriter._put_array,
}

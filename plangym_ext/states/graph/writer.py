"""GraphWriter: object graphs to bytes, without pickle.

A graph holds plain values (see `plain`), instances of Python classes with their
attributes, data of the standard library (see `data_types`), and references to classes,
functions and the env's own layers. Objects that are shared stay shared, and equal graphs
give equal bytes: mutable objects are distinguished by identity, all others only by value. `reader`
is the way back.

Layout: the sizes of five blocks as uint32, then the blocks. A JSON table of texts, of
classes with their attribute names, of references, of types of arrays, and of the names of
the attributes that the roots are; the kinds of all nodes, level by level, a byte each
(see `kinds`); their int64 numbers; their float64 numbers; the bytes of their arrays and of lists
of numbers.
"""

from __future__ import annotations

import array
import contextlib
import enum
import itertools
import struct
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from operator import itemgetter
from typing import Any

import numpy as np

from plangym_ext.states import plain
from plangym_ext.states.graph.array_views import Ties, order_of, place_of
from plangym_ext.states.graph.classes import (
    Name,
    Shape,
    imported,
    is_drawing,
    is_simple,
    layout_of,
    name_of,
    sorted_elements,
)
from plangym_ext.states.graph.data_types import are_plain, data_type
from plangym_ext.states.graph.kinds import Kind, writing_of
from plangym_ext.states.graph.tables import GraphTables
from plangym_ext.states.plain import NotPlain
from plangym_ext.states.randomness.random_bytes import RANDOM_TYPES, SPAWNED, bits_of, random_bytes

__all__ = ["GraphWriter", "Name", "Shape", "imported", "is_drawing", "is_simple", "name_of"]

# As plain ints, which are several times faster than members of the class.
_FLOAT, _INT, _BOOL, _TEXT = map(int, (Kind.FLOAT, Kind.INT, Kind.BOOL, Kind.TEXT))
_NONE, _SEEN, _SHARED = map(int, (Kind.NONE, Kind.SEEN, Kind.SHARED))
_TUPLE, _INT_TUPLE, _FLOAT_TUPLE = map(int, (Kind.TUPLE, Kind.INT_TUPLE, Kind.FLOAT_TUPLE))
_LIST, _INT_LIST, _FLOAT_LIST = map(int, (Kind.LIST, Kind.INT_LIST, Kind.FLOAT_LIST))
_DICT, _ARRAY, _OBJECT, _SCALAR = map(int, (Kind.DICT, Kind.ARRAY, Kind.OBJECT, Kind.SCALAR))
_INT_TUPLES, _FLOAT_TUPLES = int(Kind.INT_TUPLES), int(Kind.FLOAT_TUPLES)
_INT_LISTS, _FLOAT_LISTS = int(Kind.INT_LISTS), int(Kind.FLOAT_LISTS)
#: Of few items the type that they share is looked up.
_SHORT = 9
_SAME: dict[tuple[type, ...], type] = {
    (kind,) * n: kind for kind in (int, float, tuple, list) for n in range(1, _SHORT)
}
_ONLY_INT, _ONLY_FLOAT = {int}, {float}
_LARGE = 1 << 63
_OBJECTS = np.dtype(object)
_SIZES = struct.Struct("<5I")
_MOST_CLASSES = 4096


#: What a graph holds by its name.
_BY_NAME = (type, types.FunctionType, types.BuiltinFunctionType)


class _Big(int):
    """An int that takes more than 8 bytes."""


class GraphWriter(GraphTables):
    """Writes one graph.

    Args:
        named: objects by `id` that are named, not written. A numpy generator among
            them is written, to be set in place.
        known, learns: as of `GraphTables`.
        shared: objects by `id` that a layer with another way of capture holds, too. They are
            written, with their place in that layer.
        wide: whether ints of more than 8 bytes are expected; the bytes are the same.

    Attributes:
        wide: whether there were such ints.
        tied: arrays, by `id`, of whose memory more than one array was met.
        levels: its nodes.
    """

    def __init__(
        self,
        named: dict[int, Name],
        known: dict[tuple[str, str], Any],
        *,
        learns: bool = False,
        shared: dict[int, Name] | None = None,
        wide: bool = False,
    ) -> None:
        super().__init__(known, learns=learns)
        self.tied: set[int] = set()
        self._named, self._all_shared = named, shared or {}
        self.wide = wide
        self._strongly = False  # whether weak references are written without their targets

    def _begin(self) -> None:
        self._begin_tables()
        self._shared = dict(self._all_shared)
        self._ties = Ties((*self.tied, *self._shared))
        self.levels: list[list[Any]] = []
        self._kinds = bytearray()
        self._ints: list[int] = []
        self._floats: list[float] = []
        self._blobs: list[bytes] = []
        self._seen: dict[int, int] = {}
        self._children: list[Any] = []
        self._memories: set[int] = set()
        self._bits: dict[int, Any] = {}  # of generators, by `id`
        self._weakly: dict[int, Any] = {}  # what weak references refer to, by `id`
        #: What is met here is kept until the end, so that no other object gets its `id`.
        self._kept: list[Any] = []

    def data(self) -> bytes:
        """Return everything that was `put`.

        Raises:
            NotPlain: it holds something that has no place in a graph.
        """
        found = self._data()
        if self._weakly:
            strong = GraphWriter(self._named, self._known, shared=self._all_shared, wide=self.wide)
            strong._roots, strong.tied, strong._strongly = self._roots, self.tied, True
            strong._data()
            for key, target in self._weakly.items():
                if not (key in strong._seen or key in self._named or isinstance(target, _BY_NAME)):
                    raise NotPlain(f"a weak reference to a {type(target)} that no attribute holds")
        return found

    def _data(self) -> bytes:
        while True:
            self._begin()
            level = self._roots
            try:
                while level:
                    self.levels.append(level)
                    level = self._put_level(level)
                ints = array.array("q", self._ints).tobytes()
            except OverflowError:
                self.wide = True
                continue
            if self._ties.found - self.tied:
                # Two views may come before what they are views of.
                self.tied |= self._ties.found
                continue
            floats = array.array("d", self._floats).tobytes()
            self.table = self._table()
            blocks = (self.table, bytes(self._kinds), ints, floats, b"".join(self._blobs))
            return _SIZES.pack(*map(len, blocks)) + b"".join(blocks)

    def _put_level(self, level: list[Any]) -> list[Any]:
        """Append nodes; return their children."""
        if self.wide:
            level = [
                _Big(value) if type(value) is int and not -_LARGE <= value < _LARGE else value
                for value in level
            ]
        how = writing_of(level)
        floats, ints, bools, texts, simple = how.columns
        if floats is not None:
            self._floats += floats(level)
        if ints is not None:
            self._ints += ints(level)
        if bools is not None:
            self._ints += bools(level)
        if texts is not None:
            known = self._texts
            self._ints += [known.setdefault(text, len(known)) for text in texts(level)]
        self._children = []
        own, others = bytearray(how.kinds), how.others
        left: list[tuple[int, type]] = []
        if simple is not None:
            left = self._put_column(simple(level), how.simple)
        if how.tuples is not None:
            kind = self._put_tuples(how.tuples(level))
            if kind == _TUPLE:
                left += [(i, tuple) for i in how.places]
            else:
                for i in how.places:
                    own[i] = kind
        if left:
            others = tuple(sorted((*others, *left), key=itemgetter(0)))
        writers = _WRITERS
        for i, cls in others:
            writer = writers.get(cls)
            if writer is None:
                writer = _writer_of(cls)
            own[i] = writer(self, level[i])
        self._kinds += own
        return self._children

    def _put_tuples(self, values: Any) -> int:
        """Write the tuples of a level if all of them hold numbers of one type, and nothing else.

        Returns:
            Their kind; `TUPLE` if they are to be written one by one.
        """
        numbers = list(itertools.chain.from_iterable(values))
        types = set(map(type, numbers))
        if types == _ONLY_FLOAT:
            self._ints += map(len, values)
            self._floats += numbers
            return _FLOAT_TUPLE
        if types != _ONLY_INT or (
            self.wide and not all(-_LARGE <= one < _LARGE for one in numbers)
        ):
            return _TUPLE
        self._ints += map(len, values)
        self._ints += numbers
        return _INT_TUPLE

    def _put_column(self, values: Any, places: tuple[int, ...]) -> list[tuple[int, type]]:
        """Write the objects of a level of which the attributes are all there is.

        Returns:
            Positions and types of those that are named, shared or were met before.
        """
        keys = dict.fromkeys(map(id, values))
        held = (self._seen, self._named, self._shared)
        left: list[tuple[int, type]] = []
        if len(keys) < len(values) or not all(one.keys().isdisjoint(keys) for one in held):
            new, keys = [], {}
            for place, value in zip(places, values, strict=True):
                key = id(value)
                if key in keys or any(key in one for one in held):
                    left.append((place, type(value)))
                else:
                    keys[key] = None
                    new.append(value)
            values = new
        self._seen.update(zip(keys, itertools.count(len(self._seen)), strict=False))
        attributes: list[dict[str, Any]] = list(map(vars, values))
        classes = self._classes
        for shape in zip(map(type, values), map(tuple, attributes), strict=True):
            index = classes.get(shape)
            self._ints.append(self._shape(shape) if index is None else index)
        self._children += itertools.chain.from_iterable(map(dict.values, attributes))
        return left

    def _put_nothing(self, value: Any) -> int:
        return self._again(value) if id(value) in self._named else _NONE

    def _put_reference(self, value: Any) -> int:
        if id(value) in self._named:
            return self._again(value)
        self._ints.append(self._reference(value))
        return Kind.REFERENCE

    def _put_data(self, value: Any) -> int:
        """Write an instance of a type that is taken apart, see `data_types`."""
        found = data_type(type(value))
        assert found is not None
        if found.in_place and (again := self._again(value)) >= 0:
            return again
        parts = found.parts(value)
        if not found.holds_any and not are_plain(parts):
            raise NotPlain(f"a {found.name} of objects")
        if found.memory is not None and (at := found.memory(value)):
            if at in self._memories:
                raise NotPlain(f"two {found.name} of one memory")
            self._memories.add(at)
        if type(value) is weakref.ReferenceType:
            self._weakly |= {id(target): target for target in parts}
            parts = () if self._strongly else parts
        self._kept.append(parts)
        self._children.append(parts)
        self._ints.append(self._text(found.name))
        return Kind.DATA if found.in_place else Kind.VALUE

    def _put_unknown(self, value: Any) -> int:
        if (again := self._again(value)) >= 0:  # it may have a name
            return again
        kind = type(value)
        raise NotPlain(f"a {kind.__module__}.{kind.__qualname__}")

    def _again(self, value: Any) -> int:
        """Return the kind of an object that is named or was written before.

        It is -1 for all others, and they are numbered now.
        """
        key = id(value)
        if key in self._seen:
            self._ints.append(self._seen[key])
            return _SEEN
        if key in self._named:
            layer, name = self._named[key]
            self._ints += (layer, self._text(name))
            return Kind.NAMED
        if key in self._shared:
            layer, name = self._shared.pop(key)
            self._ints += (layer, self._text(name), 0)
            place = len(self._ints) - 1
            kind = type(value)
            writer = _WRITERS.get(kind) or _writer_of(kind)
            how = writer(self, value)
            self._ints[place] = how
            return _SHARED
        self._seen[key] = len(self._seen)
        return -1

    def _put_simple(self, value: Any) -> int:
        """Write an instance of which the attributes are all there is."""
        key = id(value)
        if key in self._seen or key in self._shared or key in self._named:
            return self._again(value)
        self._seen[key] = len(self._seen)
        attributes = vars(value)
        self._ints += (self._shape((type(value), tuple(attributes))), 0)
        self._children += attributes.values()
        return _OBJECT

    def _put_object(self, value: Any) -> int:
        """Write an instance of a class: its attributes, its slots, what its builtin base holds."""
        kind: Any = type(value)
        layout = layout_of(kind)
        assert layout is not None
        base, slots = layout
        if base is not tuple and (again := self._again(value)) >= 0:
            return again
        attributes: Any = vars(value) if kind.__dictoffset__ else {}
        if slots:
            attributes = dict(attributes)
            for name, slot in slots.items():
                with contextlib.suppress(AttributeError):  # not set
                    attributes[name] = slot.__get__(value)
        index, count = self._shape((kind, tuple(attributes))), 0
        self._children += attributes.values()
        if base is not object:
            content: Any = base
            count = content.__len__(value)
            self._children += content.__iter__(value)
            if base is dict:
                self._children += content.values(value)
        self._ints += (index, count)
        return _OBJECT

    def _put_scalar(self, value: Any) -> int:
        self._ints.append(self._spec((value.dtype,)))
        self._blobs.append(value.tobytes())
        return _SCALAR

    def _put_enum(self, value: Any) -> int:
        kind: Any = type(value)
        if kind._member_map_.get(value.name) is not value:  # several flags at once
            raise NotPlain(f"{value!r}, which is no member of its class")
        self._ints += (self._reference(kind), self._text(value.name))
        return Kind.ENUM

    def _put_random(self, value: Any) -> int:
        key = id(value)
        if key in self._seen:
            self._ints.append(self._seen[key])
            return _SEEN
        self._seen[key] = len(self._seen)
        data, shares = random_bytes(value), self._bits.setdefault(id(bits_of(value)), value)
        if shares is not value or data[:1] == SPAWNED:
            raise NotPlain("a generator that spawned others, or two that draw from the same bits")
        layer, name = self._named.get(key, (-1, ""))
        self._ints += (layer, self._text(name), len(data))
        self._blobs.append(data)
        return Kind.RANDOM

    def _put_method(self, value: types.MethodType) -> int:
        if not isinstance(value.__func__, types.FunctionType):
            raise NotPlain(f"a {type(value.__func__).__qualname__} that is bound")
        self._ints.append(self._reference(value.__func__))
        self._children.append(value.__self__)
        return Kind.METHOD

    def _put_array(self, value: np.ndarray) -> int:
        key = id(value)
        if key in self._seen or key in self._shared or key in self._named:
            return self._again(value)
        dtype = value.dtype
        # Numbered as `_again` does.
        self._seen[key] = len(self._seen)
        owner = self._ties.owner(value)
        if owner is not None:
            offset, shape, strides = place_of(value, owner)
            self._ints.append(self._spec((dtype, offset, shape, strides)))
            self._children.append(owner)
            return Kind.VIEW
        columns_first = value.flags.fnc
        if dtype.hasobject:
            if dtype != _OBJECTS or columns_first:
                raise NotPlain(f"an array of {dtype}")
            self._ints += (self._spec((dtype, 0, value.shape)), value.size)
            self._children += value.ravel().tolist()
            return Kind.OBJECTS
        self._ints.append(self._spec((dtype, order_of(value), value.shape)))
        self._blobs.append(value.tobytes("F" if columns_first else "C"))
        return _ARRAY

    # Values of the builtin types ------------------------------------------------

    def _put_big(self, value: int) -> int:
        if value.bit_length() > plain.MOST_BITS:
            raise NotPlain(f"a number of {value.bit_length():,} bits")
        # Not in decimals: of more than some thousands Python makes no text.
        self._ints.append(self._text(hex(value)))
        return Kind.BIG

    def _put_bytes(self, value: bytes) -> int:
        if id(value) in self._named:
            return self._again(value)
        self._ints.append(len(value))
        self._blobs.append(value)
        return Kind.BYTES

    def _put_tuple(self, value: tuple[Any, ...]) -> int:
        self._ints.append(len(value))
        self._children += value
        return _TUPLE

    def _put_list(self, value: list[Any]) -> int:
        key = id(value)
        if key in self._seen or key in self._shared or key in self._named:
            return self._again(value)
        self._seen[key] = len(self._seen)
        self._ints.append(len(value))
        item = self._item_type(value)
        if item is int:
            self._blobs.append(array.array("q", value).tobytes())
            return _INT_LIST
        if item is float:
            self._blobs.append(array.array("d", value).tobytes())
            return _FLOAT_LIST
        if (item is tuple or item is list) and (rows := self._rows(value, item)):
            return rows
        self._children += value
        return _LIST

    def _item_type(self, value: Any) -> Any:
        """Return the type of all items of a tuple or list, or None if there is no such type."""
        item: Any
        if len(value) < _SHORT:
            item = _SAME.get(tuple(map(type, value)))
        else:
            types = set(map(type, value))
            item = types.pop() if len(types) == 1 else None
        if item is int and self.wide and not all(-_LARGE <= one < _LARGE for one in value):
            return None
        return item

    def _rows(self, value: list[Any], item: type) -> int:
        """Write a list of tuples, or of lists, of numbers, all of one length, if it is one.

        Returns:
            Its kind; 0 if it is something else, of which nothing was written.
        """
        length, numbers = len(value[0]), list(itertools.chain.from_iterable(value))
        if not length or set(map(len, value)) != {length}:
            return 0
        types = set(map(type, numbers))
        if types == _ONLY_INT:
            if self.wide and not all(-_LARGE <= one < _LARGE for one in numbers):
                return 0
        elif types != _ONLY_FLOAT:
            return 0
        if item is list:
            keys = dict.fromkeys(map(id, value))
            known = self._seen.keys() | self._shared.keys() if self._shared else self._seen.keys()
            if len(keys) < len(value) or not known.isdisjoint(keys):
                return 0
            if not self._named.keys().isdisjoint(keys):
                return 0
            self._seen.update(zip(keys, itertools.count(len(self._seen)), strict=False))
        self._ints.append(length)
        self._blobs.append(array.array("q" if types == _ONLY_INT else "d", numbers).tobytes())
        if types == _ONLY_INT:
            return _INT_TUPLES if item is tuple else _INT_LISTS
        return _FLOAT_TUPLES if item is tuple else _FLOAT_LISTS

    def _put_deque(self, value: deque[Any]) -> int:
        if (again := self._again(value)) >= 0:
            return again
        self._ints += (-1 if value.maxlen is None else value.maxlen, len(value))
        self._children += value
        return Kind.DEQUE

    def _put_dict(self, value: dict[Any, Any]) -> int:
        key = id(value)
        if key in self._seen or key in self._shared or key in self._named:
            return self._again(value)
        self._seen[key] = len(self._seen)
        self._ints.append(len(value))
        self._children += value
        self._children += value.values()
        return _DICT

    def _put_ordered(self, value: OrderedDict[Any, Any]) -> int:
        if (again := self._again(value)) >= 0:
            return again
        self._ints.append(len(value))
        self._children += value
        self._children += value.values()
        return Kind.ORDERED

    def _put_set(self, value: set[Any]) -> int:
        if (again := self._again(value)) >= 0:
            return again
        return self._elements(value, Kind.SET)

    def _put_frozenset(self, value: frozenset[Any]) -> int:
        return self._elements(value, Kind.FROZENSET)

    def _elements(self, value: Any, kind: int) -> int:
        # A set has no order of its own; a fixed one makes equal states equal bytes.
        self._ints.append(len(value))
        self._children += sorted_elements(value)
        return kind


def _writer_of(kind: Any) -> Callable[[GraphWriter, Any], int]:
    """Return the write function of a class that is not builtin, and cache it."""
    if issubclass(kind, np.generic):
        found = GraphWriter._put_scalar
    elif issubclass(kind, enum.Enum):
        found = GraphWriter._put_enum
    elif issubclass(kind, type | types.FunctionType | types.BuiltinFunctionType):
        found = GraphWriter._put_reference
    elif issubclass(kind, RANDOM_TYPES):
        found = GraphWriter._put_random
    elif is_drawing(kind):
        found = GraphWriter._put_nothing
    elif data_type(kind) is not None:
        found = GraphWriter._put_data
    elif is_simple(kind):
        found = GraphWriter._put_simple
    elif layout_of(kind) is not None:
        found = GraphWriter._put_object
    else:
        found = GraphWriter._put_unknown
    # Classes that are made by the thousand are not kept.
    while len(_WRITERS) >= _MOST_CLASSES:
        _WRITERS.pop(next(reversed(_WRITERS)))
    _WRITERS[kind] = found
    return found


_WRITERS: dict[type, Callable[[GraphWriter, Any], int]] = {
    _Big: GraphWriter._put_big,
    bytes: GraphWriter._put_bytes,
    tuple: GraphWriter._put_tuple,
    list: GraphWriter._put_list,
    deque: GraphWriter._put_deque,
    dict: GraphWriter._put_dict,
    OrderedDict: GraphWriter._put_ordered,
    set: GraphWriter._put_set,
    frozenset: GraphWriter._put_frozenset,
    np.ndarray: GraphWriter._put_array,
    types.MethodType: GraphWriter._put_method,
}

"""GraphReader: object graphs from bytes, the inverse of `writer`.

Instances are built without their constructors, and only of classes that the caller's
`Finder` grants, so bytes from elsewhere cannot choose what code runs.

Nodes are read in the order in which they were written, level by level; what may hold others is
made empty. Then, from the last level to the first, every object gets its contents.
"""

from __future__ import annotations

import array
import enum
import functools
import itertools
import json
import struct
import types
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from plangym_ext.errors import DamagedState, StateError
from plangym_ext.states import plain
from plangym_ext.states.graph import filling
from plangym_ext.states.graph.array_views import ArrayType, array_type
from plangym_ext.states.graph.classes import MARK, Layout, layout_of
from plangym_ext.states.graph.data_types import named_data_type
from plangym_ext.states.graph.filling import LATER, Fill, Filling
from plangym_ext.states.graph.kinds import Kind, reading_of
from plangym_ext.states.graph.writer import GraphWriter
from plangym_ext.states.nameable import check_key, hashing
from plangym_ext.states.part import is_protocol
from plangym_ext.states.plain import NotPlain
from plangym_ext.states.randomness import random_bytes

_new = object.__new__
_SIZES = struct.Struct("<5I")


class Finder(Protocol):
    """Protocol: resolves a graph's names, or raises `StateError`; see `nameable`.

    Attributes:
        careful: whether the graph is not trusted, so that none of the code of the
            classes that it names may run.
    """

    careful: bool

    def built(self, row: tuple[str, ...]) -> type:
        """Return the class of an instance to build, by module, name and attributes."""

    def referred(self, module: str, name: str) -> Any:
        """Return the class, enumeration or function of that name."""


def _nothing(layer: int, name: str) -> Any:  # noqa: ARG001 - there is none
    return None


class GraphReader:
    """Reads one graph.

    Args:
        data: what `GraphWriter.data` returned.
        named: the object of a `Name`, as it is now. It may return None for a name of which only a
            generator's state is needed.
        finder: finds whatever else the graph names.
        shared: returns the object that a layer now holds under a name, which the graph may
            share; None if there is none.

    Raises:
        DamagedState: the bytes are no graph.
        StateError: whatever `finder` raises.

    Attributes:
        generators: with the states that `end` brings them to.
    """

    def __init__(
        self,
        data: bytes,
        named: Callable[[int, str], Any],
        finder: Finder,
        shared: Callable[[int, str], Any] = _nothing,
    ) -> None:
        self._named, self._held = named, shared
        try:
            # The sizes, then the blocks: checked before any is read.
            ends = list(itertools.accumulate(_SIZES.unpack_from(data), initial=_SIZES.size))
            if ends[-1] != len(data):
                raise ValueError(f"{len(data)} bytes, but its parts say {ends[-1]}")
            table, kinds, ints, floats, blobs = map(slice, ends, ends[1:])
            self._texts, names_protocols, classes, references, self._types, self._names = _table(
                data[table]
            )
            self._kinds, self._blobs = data[kinds], data[blobs]
            self._ints = array.array("q", data[ints]).tolist()
            self._floats = array.array("d", data[floats]).tolist()
        except plain.MALFORMED as error:
            raise DamagedState(f"object graph: {error}") from error
        # Granted before anything is built: what is refused leaves nothing half made.
        self._classes = [_laid_out(finder.built(row), row[2:]) for row in classes]
        self._references = [finder.referred(*thing) for thing in references]
        #: Whether keys have to be looked at before they are hashed.
        self.careful = finder.careful
        self._wary = finder.careful and (
            names_protocols or any(hashing(cls) for cls, *_ in self._classes)
        )
        # What is read next of each block.
        self._kind_at = self._int_at = self._float_at = self._blob_at = 0
        self._num_children = 0
        self._fillings: list[Filling] = []
        self._levels: list[tuple[list[Any], list[Filling]]] = []
        self.seen: list[Any] = []
        self.generators: list[tuple[Any, Any]] = []
        #: Nodes that may become other objects: level, place in it, number.
        self._open: list[tuple[int, int, int]] = []
        #: Numbers of objects that another layer may hold, with what it holds.
        self._shared: dict[int, tuple[Any, bool]] = {}

    def get(self) -> list[Any]:
        """Return the roots: values, or a dict for each layer if those were put.

        Raises:
            DamagedState: the bytes are not what a writer wrote.
            UntrustedState: a key of a dict would run code of its class.
        """
        try:
            return self._roots()
        except StateError:
            raise
        except plain.MALFORMED as error:
            raise DamagedState(f"object graph: {error}") from error

    def end(self) -> None:
        """Set the generators that the graph holds, last of all.

        Raises:
            DamagedState: a generator cannot be in such a state.
        """
        random_bytes.set_all(self.generators)

    @property
    def levels(self) -> list[list[Any]]:
        """The nodes, level by level."""
        return [nodes for nodes, _ in self._levels]

    def _roots(self) -> list[Any]:
        names = self._names
        count = names if isinstance(names, int) else sum(map(len, names))
        while count:
            count = self._read_level(count)
        ends = (self._kind_at, self._int_at, self._float_at, self._blob_at)
        blocks = (self._kinds, self._ints, self._floats, self._blobs)
        if ends != tuple(map(len, blocks)):
            raise ValueError("it ends too early, or more follows after its end")
        self._fill()
        if self._open:
            self._close()
        roots = self._levels[0][0] if self._levels else []
        if isinstance(names, int):
            return roots
        left = iter(roots)
        return [dict(zip(row, left, strict=False)) for row in names]

    # Reading ----------------------------------------------------------------------

    def _read_level(self, count: int) -> int:
        """Read the next `count` nodes; return how many children they have."""
        kinds = self._kinds[self._kind_at : self._kind_at + count]
        if len(kinds) != count:
            raise ValueError(f"{count} nodes expected, {len(kinds)} left")
        self._kind_at += count
        counts, others, order = reading_of(kinds)
        num_floats, num_ints, num_bools, num_texts, num_simple, *num_tuples = counts
        found: list[Any] = [None]
        # A block that ends too early is found out by `order`, which misses what is not there.
        if num_floats:
            found += self._next_floats(num_floats)
        if num_ints:
            found += self._next_ints(num_ints)
        if num_bools:
            found += map(bool, self._next_ints(num_bools))
        if num_texts:
            found += map(self._texts.__getitem__, self._next_ints(num_texts))
        self._num_children, self._fillings = 0, []
        if num_simple:
            found += self._simple(num_simple)
        takes: tuple[Callable[[int], list[Any]], ...] = (self._next_ints, self._next_floats)
        for number, take in zip(num_tuples, takes, strict=True):
            if number:
                lengths = self._next_ints(number)
                numbers = iter(take(sum(lengths)))
                found += [tuple(itertools.islice(numbers, length)) for length in lengths]
        readers = _READERS
        for place, kind in others:
            found.append(readers[kind](self, place))
        self._levels.append((list(order(found)), self._fillings))
        return self._num_children

    def _simple(self, count: int) -> list[Any]:
        """Make the objects of a level of which the attributes are all there is."""
        made, names, num_children = [], [], 0
        for index in self._next_ints(count):
            cls, layout, own = self._classes[index]
            if layout.slots or layout.base is not object:
                raise ValueError(f"a {cls.__qualname__} among simple objects")
            # Without its constructor, which is code that the bytes would choose to run.
            made.append(_new(cls))
            names.append(own)
            num_children += len(own)
        self.seen += made
        self._children(num_children, filling.fill_column, 0, made, names)
        return made

    def _next(self) -> int:
        self._int_at += 1
        return self._ints[self._int_at - 1]

    def _next_ints(self, count: int) -> list[int]:
        if count < 0:
            raise ValueError(f"{count} numbers")
        first, self._int_at = self._int_at, self._int_at + count
        return self._ints[first : self._int_at]

    def _next_floats(self, count: int) -> list[float]:
        if count < 0:
            raise ValueError(f"{count} numbers")
        first, self._float_at = self._float_at, self._float_at + count
        return self._floats[first : self._float_at]

    def _text(self) -> str:
        return self._texts[self._next()]

    def _blob(self, size: int) -> bytes:
        first, self._blob_at = self._blob_at, self._blob_at + size
        if size < 0 or self._blob_at > len(self._blobs):
            raise ValueError(f"{size} bytes expected, {len(self._blobs) - first} left")
        return self._blobs[first : self._blob_at]

    def _children(self, count: int, fill: Fill, place: int, made: Any, how: Any = None) -> Any:
        """Note what a node is filled with; return the node."""
        if count < 0:
            raise ValueError(f"{count} children")
        first = self._num_children
        self._num_children = stop = first + count
        self._fillings.append((fill, place, made, how, first, stop))
        return made

    def _number(self, made: Any) -> Any:
        self.seen.append(made)
        return made

    def _leave_open(self, place: int, number: int) -> None:
        self._open.append((len(self._levels), place, number))

    # Filling ----------------------------------------------------------------------

    def _fill(self) -> None:
        """Fill all nodes with their children, those of the last level first."""
        below: list[Any] = []
        for level, fillings in reversed(self._levels):
            for fill, place, made, how, first, stop in fillings:
                found = fill(self, made, how, below[first:stop])
                if found is not None:
                    level[place] = found
            below = level

    def _close(self) -> None:
        """Bring what was made later, or is held by another layer, to where it is held."""
        for number, (live, known) in self._shared.items():
            if live is not None and (known or alike(live, self.seen[number])):
                self.seen[number] = live
        # Each time at least one more is there: that of which all parts are.
        for _ in range(len(self.seen) + 2):
            changed = False
            for level, place, number in self._open:
                nodes = self._levels[level][0]
                if nodes[place] is not self.seen[number]:
                    nodes[place], changed = self.seen[number], True
            if not changed:
                break
            self._fill()
        if any(made is LATER for made in self.seen):
            raise ValueError("something is made of itself")

    def check_keys(self, keys: list[Any]) -> None:
        """Refuse keys of a dict, or elements of a set, that are more than data, or collide."""
        if self.careful and len(keys) > plain.FEW:
            plain.check_hashes(keys)
        if self._wary:
            for key in keys:
                check_key(key)

    # One function a kind: of the place of the node in its level -------------------

    def _get_big(self, _: int) -> int:
        text = self._text()
        if len(text) > plain.MOST_BITS // 4 + 3:
            raise ValueError(f"a number of {len(text):,} digits")
        return int(text, 16)

    def _get_bytes(self, _: int) -> bytes:
        return self._blob(self._next())

    def _get_scalar(self, _: int) -> Any:
        dtype = self._types[self._next()].dtype
        found = plain.array_of(self._blob(dtype.itemsize), dtype)
        # A record is a view of what it was taken from.
        return found[0] if dtype.names is None else found.copy()[0]

    def _get_tuple(self, place: int) -> Any:
        return self._children(self._next(), filling.fill_tuple, place, LATER)

    def _get_frozenset(self, place: int) -> Any:
        return self._children(self._next(), filling.fill_frozenset, place, LATER)

    def _get_enum(self, _: int) -> Any:
        kind = self._references[self._next()]
        if not (isinstance(kind, type) and issubclass(kind, enum.Enum)):
            raise TypeError(f"{kind!r} is no enumeration")
        # Not `kind[...]`, which a metaclass of the enumeration may override.
        return kind._member_map_[self._text()]

    def _get_reference(self, _: int) -> Any:
        return self._references[self._next()]

    def _get_method(self, place: int) -> Any:
        function = self._references[self._next()]
        if not isinstance(function, types.FunctionType):
            raise TypeError(f"{function!r} is no function")
        return self._children(1, filling.fill_method, place, LATER, function)

    def _get_value(self, place: int) -> Any:
        found = named_data_type(self._text())
        if found.in_place:
            raise ValueError(f"a {found.name} without a number")
        return self._children(1, filling.fill_value, place, LATER, found)

    def _get_data(self, place: int) -> Any:
        found = named_data_type(self._text())
        if not found.in_place:
            raise ValueError(f"a {found.name} with a number")
        number = len(self.seen)
        if found.empty is not None:
            made = self._number(found.empty())
            return self._children(1, filling.fill_empty, place, made, found)
        self._leave_open(place, number)
        return self._children(1, filling.fill_data, place, self._number(LATER), (found, number))

    def _get_named(self, _: int) -> Any:
        found = self._named(self._next(), self._text())
        if found is None or isinstance(found, random_bytes.RANDOM_TYPES):
            raise ValueError("it refers to an attribute that is not there, or is a state itself")
        return found

    def _get_seen(self, place: int) -> Any:
        number = self._next()
        found = self.seen[number]
        if found is LATER or number in self._shared:
            self._leave_open(place, number)
        return found

    def _get_list(self, place: int) -> Any:
        return self._children(self._next(), filling.fill_list, place, self._number([]))

    def _get_int_list(self, _: int) -> Any:
        return self._number(self._run("q", self._next()))

    def _get_float_list(self, _: int) -> Any:
        return self._number(self._run("d", self._next()))

    def _run(self, code: str, count: int) -> list[Any]:
        return array.array(code, self._blob(8 * count)).tolist()

    def _get_int_tuples(self, _: int) -> Any:
        return self._rows("q", tuple)

    def _get_float_tuples(self, _: int) -> Any:
        return self._rows("d", tuple)

    def _get_int_lists(self, _: int) -> Any:
        return self._rows("q", list)

    def _get_float_lists(self, _: int) -> Any:
        return self._rows("d", list)

    def _rows(self, code: str, kind: type) -> Any:
        count, length = self._next(), self._next()
        if length < 1 or count < 1:  # there is one number at least, so that the next bounds both
            raise ValueError(f"{count} rows of {length} numbers")
        numbers = self._run(code, count * length)
        made: list[Any] = self._number([])
        if kind is tuple:
            # Of one iterator that many times: so many numbers at a time.
            made += zip(*[iter(numbers)] * length, strict=True)
        else:
            made += [numbers[i : i + length] for i in range(0, len(numbers), length)]
            self.seen += made
        return made

    def _get_set(self, place: int) -> Any:
        return self._children(self._next(), filling.fill_set, place, self._number(set()))

    def _get_deque(self, place: int) -> Any:
        # -1 stands for none.
        maxlen = self._next()
        made: Any = deque(maxlen=None if maxlen < 0 else maxlen)
        return self._children(self._next(), filling.fill_deque, place, self._number(made))

    def _get_dict(self, place: int) -> Any:
        return self._children(2 * self._next(), filling.fill_dict, place, self._number({}))

    def _get_ordered(self, place: int) -> Any:
        return self._children(
            2 * self._next(), filling.fill_dict, place, self._number(OrderedDict())
        )

    def _get_array(self, _: int) -> Any:
        found: ArrayType = self._types[self._next()]
        if found.dtype.hasobject:
            raise ValueError("objects, where numbers are expected")
        flat = plain.array_of(self._blob(found.size), found.dtype)
        return self._number(found.owned(flat))

    def _get_objects(self, place: int) -> Any:
        found: ArrayType = self._types[self._next()]
        count = self._next()
        # Before room is made for them.
        if found.size != count or count > len(self._kinds) or not found.dtype.hasobject:
            raise ValueError(f"{count} objects for {found.shape}")
        made = np.empty(found.shape, object)
        return self._children(count, filling.fill_objects, place, self._number(made))

    def _get_view(self, place: int) -> Any:
        found: ArrayType = self._types[self._next()]
        number = len(self.seen)
        self._leave_open(place, number)
        return self._children(1, filling.fill_view, place, self._number(LATER), (found, number))

    def _get_random(self, _: int) -> Any:
        layer, name = self._next(), self._text()
        data = self._blob(self._next())
        made, state = random_bytes.generator_of(self._named, layer, name, data)
        if any(made is other for other, _ in self.generators):
            raise ValueError(f"two states for the generator {name!r}")
        # Set at the end, so that a graph which is refused has changed nothing.
        self.generators.append((made, state))
        return self._number(made)

    def _get_object(self, place: int) -> Any:
        cls, layout, names = self._classes[self._next()]
        base: Any = layout.base
        count = self._next()
        num_children = len(names) + (2 * count if base is dict else count)
        if base is object and not layout.slots:
            if count:
                raise ValueError(f"{count} items of a {cls.__qualname__}")
            # Without its constructor, which is code that the bytes would choose to run.
            made = self._number(object.__new__(cls))
            return self._children(num_children, filling.fill_object, place, made, names)
        made = LATER if base is tuple else self._number(base.__new__(cls))
        how = (cls, layout, names)
        return self._children(num_children, filling.fill_laid_out, place, made, how)

    def _get_shared(self, place: int) -> Any:
        """Read what another layer holds, if it holds there what the graph says."""
        live, known = self._held(self._next(), name := self._text()), name.startswith(MARK)
        kind, number = self._next(), len(self.seen)
        if not _OWN < kind < Kind.SHARED:
            raise ValueError(f"a shared node of kind {kind}")
        self._shared[number] = live, known
        self._leave_open(place, number)
        return _READERS[kind](self, place)


#: By the number of the kind; those of the columns are read together.
_READERS: list[Any] = [getattr(GraphReader, f"_get_{kind.name.lower()}", None) for kind in Kind]
#: Kinds after this one are numbered, but for the last.
_OWN = Kind.SEEN


@functools.lru_cache(maxsize=64)
def _table(data: bytes) -> tuple[Any, ...]:
    """Return the parts of the first block, which states of one env mostly share.

    The second part says whether one of the texts is a name that libraries look up on objects.
    """
    texts, classes, references, types_of_arrays, names = json.loads(data)
    rows = names if isinstance(names, list) else []
    for row in (texts, *classes, *references, *rows):
        if not (isinstance(row, list) and all(isinstance(text, str) for text in row)):
            raise TypeError("its table holds more than texts")
    if not all(len(row) >= len(("module", "name")) for row in classes):
        raise ValueError("a class without a name")
    if not rows and not (type(names) is int and names >= 0):
        raise ValueError(f"{names!r} roots")
    return (
        texts,
        any(map(is_protocol, texts)),
        list(map(tuple, classes)),
        [(module, name) for module, name in references],
        list(map(array_type, types_of_arrays)),
        names,
    )


def alike(one: Any, two: Any) -> bool:
    """Return whether two objects of one type hold the same data."""
    # Compared as graphs: `==` may be an object's own, or an array's, which is no bool.
    if type(one) is not type(two):
        return False
    graphs = []
    for value in (one, two):
        writer = GraphWriter({}, {})
        writer.put(value)
        try:
            graphs.append(writer.data())
        except NotPlain:
            return False
    return graphs[0] == graphs[1]


def _laid_out(cls: Any, names: tuple[str, ...]) -> tuple[Any, Layout, tuple[str, ...]]:
    layout = layout_of(cls) if isinstance(cls, type) else None
    if layout is None or (not layout.slots and cls.__dictoffset__ == 0 and names):
        raise DamagedState(f"object graph: {cls!r} is more than its attributes")
    return cls, layout, names

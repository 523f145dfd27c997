"""Node kinds of object graphs, with the level-wise write and read functions of each.

A graph is written level by level: the roots, what these hold, what that holds. Numbers and
texts of a level are taken together, by functions that a level of the same types has had before:
per node that costs some tens of nanoseconds. All other nodes are looked at one by one.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable
from enum import IntEnum, auto
from operator import itemgetter
from typing import Any, NamedTuple

from plangym_ext.states.graph.classes import is_drawing, is_simple
from plangym_ext.states.graph.data_types import data_type

#: Levels that are remembered, and nodes of the longest of them.
_MOST_LEVELS, _LONGEST = 1024, 4096


class Kind(IntEnum):
    """Kind of a node, one byte: its data in the other blocks, and its children."""

    NONE = 0
    FLOAT = auto()  # a float
    INT = auto()  # an int
    BOOL = auto()  # an int
    TEXT = auto()  # text
    SIMPLE = auto()  # class; attributes
    INT_TUPLE = auto()  # count, that many ints; first all counts
    FLOAT_TUPLE = auto()  # count; that many floats
    BIG = auto()  # text
    BYTES = auto()  # size
    SCALAR = auto()  # type
    TUPLE = auto()  # count; items
    FROZENSET = auto()  # count; items
    ENUM = auto()  # class, name
    REFERENCE = auto()  # reference
    METHOD = auto()  # function; what it is bound to
    VALUE = auto()  # text, the name of the data type; a tuple of its parts
    NAMED = auto()  # layer, name
    SEEN = auto()  # number; objects below are numbered as they come
    LIST = auto()  # count; items
    INT_LIST = auto()  # count, that many ints
    FLOAT_LIST = auto()  # count; that many floats
    INT_TUPLES = auto()  # a list of tuples of one length: count, length, that many ints
    FLOAT_TUPLES = auto()  # count, length; that many floats
    INT_LISTS = auto()  # a list of lists, which are numbered after it: as of tuples
    FLOAT_LISTS = auto()
    SET = auto()  # count; items
    DEQUE = auto()  # maxlen or -1, count; items
    DICT = auto()  # count; keys, then values
    ORDERED = auto()  # the same
    ARRAY = auto()  # type
    OBJECTS = auto()  # type, count; items
    VIEW = auto()  # type; the array that it is a view of
    RANDOM = auto()  # layer or -1, name, size
    OBJECT = auto()  # class, count; attributes, then items
    DATA = auto()  # as VALUE
    SHARED = auto()  # layer, name, kind; what that kind takes


#: Taken together, in this order.
COLUMNS = (
    Kind.FLOAT,
    Kind.INT,
    Kind.BOOL,
    Kind.TEXT,
    Kind.SIMPLE,
    Kind.INT_TUPLE,
    Kind.FLOAT_TUPLE,
)
#: Of so many of them the type of a value decides.
_BY_TYPE = 5
_KINDS: dict[type, Kind] = {
    type(None): Kind.NONE,
    float: Kind.FLOAT,
    int: Kind.INT,
    bool: Kind.BOOL,
    str: Kind.TEXT,
}
Taker = Callable[[Any], Any]


class Writing(NamedTuple):
    """Writer of a level of nodes with given types.

    Attributes:
        kinds: of its nodes; 0 for those that are looked at one by one.
        columns: take the values of each kind of `COLUMNS`; None where there are none.
        simple: positions of the objects among these.
        tuples: takes the tuples, which are taken together if they hold numbers alone.
        places: positions of these.
        others: positions and types of all other nodes.
    """

    kinds: bytes
    columns: tuple[Taker | None, ...]
    simple: tuple[int, ...]
    tuples: Taker | None
    places: tuple[int, ...]
    others: tuple[tuple[int, type], ...]


class Reading(NamedTuple):
    """Reader of a level of nodes with given kinds.

    Attributes:
        counts: of the values of each kind of `COLUMNS`.
        others: positions and kinds of all other nodes.
        order: from None and all values, the columns first, to the nodes as they were.
    """

    counts: tuple[int, ...]
    others: tuple[tuple[int, int], ...]
    order: Taker


_writings: dict[tuple[type, ...], Writing] = {}
_readings: dict[bytes, Reading] = {}


def _kind_of(cls: Any) -> Kind | None:
    """Return the kind of instances of a class that are taken together, None for all others."""
    found = _KINDS.get(cls)
    if found is None and is_simple(cls) and not issubclass(cls, enum.Enum):
        return None if is_drawing(cls) or data_type(cls) is not None else Kind.SIMPLE
    return found


def writing_of(level: list[Any]) -> Writing:
    """Return how to write nodes."""
    types = tuple(map(type, level))
    found = _writings.get(types)
    if found is None:
        kinds = [_kind_of(kind) for kind in types]
        columns = tuple(
            taker([i for i, k in enumerate(kinds) if k is kind]) for kind in COLUMNS[:_BY_TYPE]
        )
        simple = tuple(i for i, kind in enumerate(kinds) if kind is Kind.SIMPLE)
        tuples = [i for i, kind in enumerate(types) if kind is tuple]
        others = tuple(
            (i, types[i]) for i, kind in enumerate(kinds) if kind is None and types[i] is not tuple
        )
        found = Writing(
            bytes(kind or 0 for kind in kinds),
            columns,
            simple,
            taker(tuples),
            tuple(tuples),
            others,
        )
        _remember(_writings, types, found)
    return found


def reading_of(kinds: bytes) -> Reading:
    """Return how to read nodes.

    Raises:
        ValueError: there is no such kind.
    """
    found = _readings.get(kinds)
    if found is None:
        if max(kinds) >= len(Kind):
            raise ValueError(f"unknown kind of node {max(kinds)}")
        columns = [[i for i, k in enumerate(kinds) if k == kind] for kind in COLUMNS]
        others = [i for i, kind in enumerate(kinds) if kind > COLUMNS[-1]]
        places = [0] * len(kinds)
        for place, i in enumerate([*itertools.chain(*columns), *others], 1):
            places[i] = place
        found = Reading(
            tuple(map(len, columns)), tuple((i, kinds[i]) for i in others), taker(places) or list
        )
        _remember(_readings, kinds, found)
    return found


def taker(places: list[int]) -> Taker | None:
    """Return a function from a list to its items at `places`; None if there are none."""
    if not places:
        return None
    first, last = places[0], places[-1] + 1
    if places == list(range(first, last)):
        return itemgetter(slice(first, last))
    return itemgetter(*places) if len(places) > 1 else itemgetter(slice(first, last))


def _remember(memory: dict[Any, Any], key: Any, found: Any) -> None:
    if len(key) <= _LONGEST:
        if len(memory) >= _MOST_LEVELS:
            memory.clear()
        memory[key] = found

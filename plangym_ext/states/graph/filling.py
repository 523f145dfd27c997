"""Reader functions that fill containers and objects of a graph with their children."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from plangym_ext.states import plain
from plangym_ext.states.graph.array_views import owner_of, view_at
from plangym_ext.states.graph.data_types import are_plain
from plangym_ext.states.graph.package_types import DataType
from plangym_ext.states.nameable import is_method


class Reader(Protocol):
    """Protocol of the reader that filling functions use.

    Attributes:
        seen: objects by number.
        careful: whether the graph is not trusted.
    """

    seen: list[Any]
    careful: bool

    def check_keys(self, keys: list[Any]) -> None:
        """Refuse keys of a dict, or elements of a set, that are more than data, or collide."""


#: Fills a node: given the node if it is there already, what else it needs, and its children, it
#: returns the node if it is made now, else None.
Fill = Callable[[Any, Any, Any, list[Any]], Any]
#: How to fill a node, its place in its level, the node, what else is needed, and where its
#: children are in the level below.
Filling = tuple[Fill, int, Any, Any, int, int]


class _Later:
    """Placeholder for an object that is built after its content."""


LATER: Any = _Later()


def fill_tuple(_: Reader, __: Any, ___: Any, children: list[Any]) -> Any:
    """Return a tuple of its items."""
    return tuple(children)


def fill_frozenset(reader: Reader, _: Any, __: Any, children: list[Any]) -> Any:
    """Return a frozenset of its items."""
    reader.check_keys(children)
    return frozenset(children)


def fill_method(reader: Reader, _: Any, function: Any, children: list[Any]) -> Any:
    """Return a method bound to the one child."""
    (owner,) = children
    if owner is LATER:
        return LATER
    if reader.careful and not is_method(function, owner):
        raise ValueError(f"{function!r} is no method of a {type(owner).__qualname__}")
    return types.MethodType(function, owner)


def _is_open(parts: Iterable[Any]) -> bool:
    """Return whether something in the parts of a value is not made yet."""
    return any(part is LATER or (type(part) is tuple and _is_open(part)) for part in parts)


def made_of_parts(found: DataType, children: list[Any]) -> Any:
    """Build a value from its parts, the one child.

    Raises:
        one of `plain.MALFORMED`: it has no such parts.
    """
    (parts,) = children
    if not (type(parts) is tuple and (found.holds_any or are_plain(parts))):
        raise ValueError(f"a {found.name} of other parts than it has")
    try:
        return found.made(*parts)
    except plain.MALFORMED:
        raise
    except Exception as error:  # whatever a package raises for what it did not write
        raise ValueError(f"a {found.name}: {error}") from error


def fill_value(_: Reader, __: Any, found: Any, children: list[Any]) -> Any:
    """Build a value from its parts."""
    return LATER if _is_open(children) else made_of_parts(found, children)


def fill_empty(reader: Reader, made: Any, found: Any, children: list[Any]) -> None:
    """Give a container its parts."""
    (parts,) = children
    for part in parts:
        if type(part) is list:
            reader.check_keys(part)
    found.made(made, *parts)


def fill_data(reader: Reader, _: Any, how: Any, children: list[Any]) -> Any:
    """Build an object from its parts, once."""
    found, number = how
    made = reader.seen[number]
    if made is LATER and not _is_open(children):
        made = reader.seen[number] = made_of_parts(found, children)
    return made


def fill_view(reader: Reader, _: Any, how: Any, children: list[Any]) -> Any:
    """Return a view of the one child."""
    (owner,), (found, number) = children, how
    made = reader.seen[number]
    if owner is not LATER and (made is LATER or owner_of(made) is not owner_of(owner)):
        place = (found.size, found.shape, found.strides)
        made = reader.seen[number] = view_at(owner, found.dtype, place)
    return made


def fill_list(_: Reader, made: Any, __: Any, children: list[Any]) -> None:
    """Give a list its items."""
    made[:] = children


def fill_set(reader: Reader, made: Any, _: Any, children: list[Any]) -> None:
    """Give a set its items."""
    reader.check_keys(children)
    made.clear()
    made.update(children)


def fill_deque(_: Reader, made: Any, __: Any, children: list[Any]) -> None:
    """Give a deque its items."""
    made.clear()
    made.extend(children)


def fill_dict(reader: Reader, made: Any, _: Any, children: list[Any]) -> None:
    """Give a dict its keys and values."""
    count = len(children) // 2
    keys = children[:count]
    reader.check_keys(keys)
    made.clear()
    made.update(zip(keys, children[count:], strict=True))


def fill_objects(_: Reader, made: Any, __: Any, children: list[Any]) -> None:
    """Give an array its objects."""
    flat = made.reshape(-1)
    for i, child in enumerate(children):  # not at once: numpy would look into sequences
        flat[i] = child


def fill_object(_: Reader, made: Any, names: Any, children: list[Any]) -> None:
    """Give an object its attributes."""
    vars(made).update(zip(names, children, strict=True))


def fill_column(_: Reader, made: Any, names: Any, children: list[Any]) -> None:
    """Give objects their attributes, one after another."""
    first = 0
    for value, own in zip(made, names, strict=True):
        stop = first + len(own)
        vars(value).update(zip(own, children[first:stop], strict=True))
        first = stop


def fill_laid_out(reader: Reader, made: Any, how: Any, children: list[Any]) -> Any:
    """Give an object its attributes, its slots, and what its builtin base holds."""
    cls, (base, slots), names = how
    items = children[len(names) :]
    if base is tuple:
        made = tuple.__new__(cls, items)
    elif base is list:
        list.__setitem__(made, slice(None), items)
    elif base is dict:
        count = len(items) // 2
        reader.check_keys(items[:count])
        dict.clear(made)
        dict.update(made, zip(items[:count], items[count:], strict=True))
    for name, value in zip(names, children, strict=False):
        if name in slots:
            slots[name].__set__(made, value)
        else:
            vars(made)[name] = value
    return made if base is tuple else None

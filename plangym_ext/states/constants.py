"""Constants: large attributes made by the constructor; a state holds only their digests.

An array, a table or a frame of data that no reset or step changes would be in every row. It is
named there by its place and a digest of its content. Whether it has changed is looked at in every
capture; one that has is written as any other attribute.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import gymnasium as gym
import numpy as np

from plangym_ext.errors import ForeignState
from plangym_ext.states.graph.classes import Name, is_simple, layout_of
from plangym_ext.states.graph.data_types import data_type
from plangym_ext.states.graph.reader import GraphReader
from plangym_ext.states.graph.writer import GraphWriter
from plangym_ext.states.layer_attributes import LayerAttributes
from plangym_ext.states.nameable import AnyThing
from plangym_ext.states.plain import NotPlain
from plangym_ext.states.trials.digests import attributes

#: Bytes from which data are left out.
_LONG = 1024
#: Objects in one constant that may change in place, and how deep in objects it may lie.
_MOST, _DEEPEST = 4096, 3
_ATOMS = frozenset((type(None), bool, int, float, complex, str, bytes))
_memcmp: Any = ctypes.CDLL(None).memcmp
_memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)

#: By layer and path: content of what may be constant, as a constructor made it.
Made = dict[Name, bytes]


def made_by_constructor(stack: Sequence[Any]) -> Made:
    """Return the large data in the attributes of an env that was not reset yet."""
    found: Made = {}
    for layer, each in enumerate(stack):
        for path, value in _values(LayerAttributes(each, ()).state(), ""):
            data = _content(value)
            if data is not None and len(data) >= _LONG:
                found[layer, path] = data
    return found


def _values(attributes: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of an object, and those of the simple objects in them, by path."""
    for name, value in attributes.items():
        path = f"{prefix}{name}"
        kind: Any = type(value)
        if is_simple(kind) and data_type(kind) is None and not isinstance(value, gym.Env):
            if path.count(".") < _DEEPEST:
                yield from _values(vars(value), f"{path}.")
        elif kind not in _ATOMS or kind is bytes:
            yield path, value


def mutable_in(
    value: Any, atoms: tuple[type, ...] = (), is_object: Callable[[Any], bool] = lambda _: False
) -> list[Any] | None:
    """Return what may change in place in a value, in a fixed order; None if it is no data.

    Args:
        value: of which.
        atoms: classes whose instances are taken not to change.
        is_object: of which classes the instances are data, by their attributes.
    """
    found: list[Any] = []
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        one = waiting.pop()
        kind: Any = type(one)
        if kind in _ATOMS or isinstance(one, (np.generic, *atoms)) or id(one) in seen:
            continue
        seen.add(id(one))
        if kind is tuple:
            waiting += one
            continue
        if kind is list:
            waiting += one
        elif kind is dict:
            waiting += chain(one, one.values())
        elif kind is np.ndarray:
            flags = one.flags
            if one.dtype.hasobject or one.base is not None or not (flags.forc and flags.writeable):
                return None
        elif is_object(kind):
            held = attributes(one)
            if held is getattr(one, "__dict__", None):
                waiting.append(held)
                continue
            # With slots: what was made to read them belongs to no object.
            waiting += held.values()
        elif not _is_of_package(kind):
            return None
        found.append(one)
        if len(found) > _MOST:
            return None
    return found


def _is_of_package(kind: Any) -> bool:
    found = data_type(kind)
    return found is not None and "." in found.name and found.in_place and found.memory is None


def _form(array: np.ndarray) -> Any:
    """Return what may be set of an array beside its bytes."""
    return array.dtype, array.shape, array.strides, array.flags.writeable


def _pieces(value: Any) -> list[Any]:
    """Return what an object of a package is made of, in a form of which equal is the same."""
    found: list[Any] = []
    waiting = [value]
    while waiting:
        one = waiting.pop()
        kind: Any = type(one)
        rules, layout = data_type(kind), layout_of(kind)
        if rules is not None:
            waiting += rules.parts(one)
        elif layout is not None and layout.slots:
            found.append([_ById(part) for part in attributes(one).values()])
        elif kind is np.ndarray:
            found.append((one.dtype, one.shape, one.tobytes()))
        elif kind is tuple or (kind is list and one and type(one[0]) is tuple):
            waiting += one
        else:  # of numbers the text tells more
            found.append(one if _is_text(one) else repr(one))
    return found


class _ById:
    """Equal to what holds the same object."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and other.held is self.held

    __hash__ = None  # type: ignore[assignment]


def _is_text(value: Any) -> bool:
    return type(value) is str or (type(value) is list and {*map(type, value)} <= {str})


def _content(value: Any) -> bytes | None:
    """Return the graph of a value that is data; None of any other."""
    if mutable_in(value) is None:
        return None
    writer = GraphWriter({}, {})
    writer.put(value)
    try:
        return writer.data()
    except NotPlain:
        return None


class Unchanged:
    """Memory of data: true until something in them is changed in place.

    Args:
        mutable: everything in them that can be changed in place.
    """

    def __init__(self, mutable: Sequence[Any]) -> None:
        self._arrays = [
            (one, one.tobytes("A"), _form(one)) for one in mutable if type(one) is np.ndarray
        ]
        self._lists = [one for one in mutable if type(one) is list]
        self._dicts = [one for one in mutable if type(one) is dict]
        self._held = self._holds()
        others = (one for one in mutable if type(one) not in (np.ndarray, list, dict))
        self._others = [(one, _pieces(one)) for one in others]

    def _holds(self) -> tuple[list[int], tuple[Any, ...]]:
        """Return how many items the lists and dicts hold, and these."""
        counts = [*map(len, self._lists), *map(len, self._dicts)]
        held = chain(*self._lists, *self._dicts, *map(dict.values, self._dicts))
        return counts, tuple(held)

    def __bool__(self) -> bool:
        for array, before, form in self._arrays:
            if _form(array) != form:
                return False
            if _memcmp(array.__array_interface__["data"][0], before, len(before)):
                return False
        if self._lists or self._dicts:
            (counts, held), (first_counts, first) = self._holds(), self._held
            # By identity; what is equal and another object is looked at as a whole.
            if counts != first_counts or _identities(held) != _identities(first):
                return False
        try:
            return all(_pieces(one) == before for one, before in self._others)
        except NotPlain:  # it is no data any more
            return False


class Constant:
    """One constant, with the object that has its content now.

    Args:
        layer: number of the layer that holds it.
        path: attributes from there, joined by points.
        data: its content.
        used: whether states leave it out.

    Attributes:
        named: the names of the object and of what lies in it, by `id`.
        arrays: which of these are arrays.
    """

    def __init__(self, layer: int, path: str, data: bytes, *, used: bool = True) -> None:
        self.layer, self.path, self.data, self.used = layer, path, data, used
        digest = hashlib.blake2b(data, digest_size=16).hexdigest()
        self._text = f"{path}={digest}"
        #: Whether it was another one at some time.
        self.changed = False
        self.named: dict[int, Name] = {}
        self.arrays: set[int] = set()
        self._mutable: list[Any] = []
        #: The object, in a list, as it may be None.
        self._live: list[Any] = []

    def held_by(self, stack: Sequence[Any]) -> Any:
        """Return the present object at the constant's place; None if there is no such place."""
        found = stack[self.layer]
        for name in self.path.split("."):
            found = getattr(found, "__dict__", {}).get(name)
        return found

    def is_now(self, value: Any) -> bool:
        """Return whether a value has this content, and if so, take it as the object."""
        if self._live and value is self._live[0] and self._unchanged:
            return True
        if value is not None and _content(value) == self.data:
            self._take(value)
            return True
        self.changed = True
        return False

    def _take(self, value: Any) -> None:
        self._live, self._mutable = [value], mutable_in(value) or []
        self.named = {id(value): (self.layer, self._text)}
        for k, one in enumerate(self._mutable):
            self.named.setdefault(id(one), (self.layer, f"{self._text}#{k}"))
        self.arrays = {id(one) for one in self._mutable if type(one) is np.ndarray}
        self._unchanged = Unchanged(self._mutable)

    def found(self, text: str, stack: Sequence[Any]) -> Any:
        """Return the object of a name, with the constant's content; it is made if need be.

        Raises:
            ForeignState: the name is of other content.
        """
        whole, _, inside = text.partition("#")
        if whole != self._text or (inside and not inside.isdigit()):
            raise ForeignState(left_out(stack[self.layer], self.path))
        if not self.is_now(self.held_by(stack)) and not (self._live and self._unchanged):
            reader = GraphReader(self.data, lambda *_: None, AnyThing({}))
            (made,) = reader.get()
            self._take(made)
        if not inside:
            return self._live[0]
        if int(inside) >= len(self._mutable):
            raise ForeignState(left_out(stack[self.layer], self.path))
        return self._mutable[int(inside)]


def _identities(held: tuple[Any, ...]) -> bytes:
    """Return the `id` of each item, eight bytes each: they lie so in a tuple of CPython."""
    return ctypes.string_at(id(held) + tuple.__basicsize__, 8 * len(held))


def left_out(layer: Any, path: str) -> str:
    """Return the message for a state whose constant has another content in this env."""
    return (
        f"state: it leaves out {type(layer).__qualname__}.{path}, which no step had changed where "
        "it was captured and which has other content here. Make the env with the same data."
    )


class Constants:
    """The constants of some layers of an env."""

    def __init__(self, stack: Sequence[Any]) -> None:
        self._stack = stack
        self._by_place: dict[Name, Constant] = {}
        #: Arrays among those that `add_names` has named.
        self.arrays: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._by_place)

    def take(self, made: Made, own: set[int]) -> None:
        """Leave out data made by the constructor, if the first reset has not changed it."""
        inside: set[int] = set()
        for (layer, path), data in made.items():
            one = Constant(layer, path, data)
            # An object in two constants is a part of only one.
            if (
                layer in own
                and one.is_now(one.held_by(self._stack))
                and inside.isdisjoint(one.named)
            ):
                inside |= one.named.keys()
                self._by_place[layer, path] = one

    def learned(self) -> list[tuple[int, str, bytes, bool]]:
        """Return all constants as plain data, without those that have changed since."""
        return [
            (one.layer, one.path, one.data, one.used and not one.changed)
            for one in self._by_place.values()
        ]

    def adopt(self, learned: list[tuple[int, str, bytes, bool]]) -> None:
        """Leave out the same constants as an equal env."""
        self._by_place = {
            (layer, path): Constant(layer, path, data, used=used)
            for layer, path, data, used in learned
        }

    def add_names(self, named: dict[int, Name]) -> None:
        """Add the names of unchanged constants."""
        self.arrays = set()
        for one in self._by_place.values():
            if one.used and one.is_now(one.held_by(self._stack)):
                named |= one.named
                self.arrays |= one.arrays

    def find(self, layer: int, name: str) -> Any:
        """Return the object of a name.

        Raises:
            ForeignState: there is none of that content here.
        """
        path = name.partition("=")[0]
        one = self._by_place.get((layer, path))
        if one is None:
            raise ForeignState(left_out(self._stack[layer], path))
        return one.found(name, self._stack)

    def sizes(self) -> dict[str, int]:
        """Return the bytes of each constant that states leave out, by layer and path."""
        return {
            f"{type(self._stack[one.layer]).__qualname__}.{one.path}": len(one.data)
            for one in self._by_place.values()
            if one.used and not one.changed
        }

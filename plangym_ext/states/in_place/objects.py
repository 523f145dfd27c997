"""Objects: numbered list of all objects that an env's layers refer to.

An object is known by its place: where the constructor put the k-th object, another one of
its class is the k-th one later. States hold numbers, so that they fit every env that a
constructor makes alike.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from plangym_ext.errors import IncompleteState
from plangym_ext.states.graph.array_views import owner_of
from plangym_ext.states.graph.writer import name_of
from plangym_ext.states.in_place.kinds import (
    Bound,
    Group,
    Places,
    Ref,
    content_of,
    has_no_parts,
    hashed,
    is_atom,
    is_constant,
    places_in,
    places_of,
    same_atom,
    text_of,
)
from plangym_ext.states.layer_attributes import LayerAttributes
from plangym_ext.states.outside import is_outside
from plangym_ext.states.simulators import SimulatorMemory, memory_of

_MASK = (1 << 64) - 1
_DICTS = (dict, OrderedDict, defaultdict)
#: Values of which equal ones of one type are the same; 0.0 and -0.0 are equal and differ.
_EXACT = (str, bytes, int, bool, type(None))
#: Most objects that are followed: more is as a rule a library's own world.
_MOST = 200_000


class Objects:
    """The present objects that some layers of an env refer to.

    Args:
        layers: whose attributes are the state.
        others: further layers of the env, which are referred to and not followed.

    Raises:
        IncompleteState: an object is of a class that is not known.

    Attributes:
        live: the object of each number, as it is now.
        first: for each number its places as the constructor left them, as what stands for them.
        contents: first content, by number.
        memories: what captures the simulators, by number.
        fixed: numbers of arrays that must stay the object they are.
    """

    def __init__(self, layers: list[Any], others: Iterable[Any]) -> None:
        self._layers = [LayerAttributes(layer, ()) for layer in layers]
        self.live: list[Any] = []
        self.first: list[Places] = []
        self.contents: dict[int, Any] = {}
        self.memories: dict[int, SimulatorMemory] = {}
        self.fixed: set[int] = set()
        self._numbers: dict[int, int] = {}
        self._paths: list[str] = []
        self._uses: dict[int, int] = {}
        self._todo: list[int] = []
        self._simulators: list[int] = []
        for layer in layers:
            self._number(layer, type(layer).__qualname__)
        for layer in others:
            self._number(layer, type(layer).__qualname__)
        self._todo = list(range(len(layers)))
        for number in self._todo:  # which grows
            self._follow(number)
        for number in self._simulators:
            value = self.live[number]
            cls: Any = type(value)
            self.memories[number] = memory_of(cls)(value, self.live)
        #: Numbers of objects whose places are state.
        self.followed = frozenset(self._todo)
        self._settle_arrays()
        #: Numbers of arrays in whose place a fresh one may be put.
        self.replaceable = tuple(
            number
            for number in self.contents
            if type(self.live[number]) is np.ndarray and number not in self.fixed
        )
        # Data are known by their places alone: an array that was the newest is the last one later.
        self._made = {
            number: value
            for number, value in enumerate(self.live)
            if type(value) not in (np.ndarray, list, dict, set, deque, OrderedDict)
        }
        self._homes = {id(value): number for number, value in self._made.items()}
        self._readers = [self._reader(k) for k in range(len(self.live))]
        #: Texts and counts that are compared as a whole: of lists and dicts, keys, values, types.
        self._exact = {
            k: found
            for k in self._todo
            if type(self.live[k]) in (list, *_DICTS) and (found := _exact(self.first[k]))
        }
        self._hashes = [self._hashed_places(k) for k in range(len(self.live))]
        self._content_hashes = {k: self._hashed_content(k) for k in self.contents}
        self.total = sum(map(sum, (found.values() for found in self._hashes)))
        self.total = (self.total + sum(self._content_hashes.values())) & _MASK

    @property
    def num_layers(self) -> int:
        """Number of layers, which are the first objects."""
        return len(self._layers)

    def path(self, number: int) -> str:
        """Return where the constructor put an object, for messages."""
        return self._paths[number]

    def structure(self) -> str:
        """Return a digest of the structure: classes of all objects in order."""
        kinds = [name_of(type(value)) for value in self.live]
        return hashlib.blake2b(repr(kinds).encode(), digest_size=16).hexdigest()

    # The first objects ------------------------------------------------------------

    def _number(self, value: Any, path: str) -> int:
        number = len(self.live)
        if number >= _MOST:
            raise IncompleteState(f"{path}: it refers to more than {_MOST:,} objects")
        self._numbers[id(value)] = number
        self.live.append(value)
        self._paths.append(path)
        self.first.append({})
        return number

    def _follow(self, number: int) -> None:
        path, found = self._paths[number], self._reader(number)(self.live[number])
        fixed = type(self.live[number]) not in (list, *_DICTS) and number >= self.num_layers
        fixed = fixed and not hasattr(self.live[number], "__dict__")
        self.first[number] = {
            place: self._standing(value, f"{path}.{place}", fixed=fixed)
            for place, value in found.items()
        }

    def _standing(self, value: Any, path: str, *, fixed: bool) -> Any:
        """Return a value's placeholder: itself if it has no parts."""
        kind: Any = type(value)
        if has_no_parts(value):
            return value
        if isinstance(value, tuple):
            items = [
                self._standing(item, f"{path}.{i}", fixed=True) for i, item in enumerate(value)
            ]
            return Group(kind, tuple(items))
        if kind is types.MethodType:
            owner = self._standing(value.__self__, f"{path}.__self__", fixed=True)
            return Bound(value.__func__, owner)
        number = self._numbers.get(id(value))
        if number is None:
            number = self._number(value, path)
            self._learn(number, kind)
        self._uses[number] = self._uses.get(number, 0) + 1
        if fixed or self._uses[number] > 1:
            self.fixed.add(number)
        return Ref(number)

    def _learn(self, number: int, kind: Any) -> None:
        value, path = self.live[number], self._paths[number]
        if is_constant(kind):
            return
        if memory_of(kind) is not None:
            self._simulators.append(number)
        elif kind is np.ndarray and type(value.base) is np.ndarray:
            # A view: its numbers are those of the array whose memory it is.
            self.fixed.add(number)
            owner = self._standing(owner_of(value), f"{path}.base", fixed=True)
            self.first[number] = {"base": owner}
        elif kind is np.ndarray and value.dtype.hasobject:
            self.fixed.add(number)
            self._todo.append(number)
        elif content_of(kind) is not None:
            self.contents[number] = content_of(kind)[0](value)  # type: ignore[index]
        elif places_of(kind) is not None:
            self._todo.append(number)
        else:
            name = ".".join(name_of(kind))
            raise IncompleteState(f"{path} holds a {name}, a type that cannot be captured")

    def _settle_arrays(self) -> None:
        """Take arrays in the memory of a simulator for what they are: views of it."""
        owned = {
            array.__array_interface__["data"][0]: number
            for number, memory in self.memories.items()
            for array in memory.arrays().values()
        }
        for number in [k for k in self.contents if isinstance(self.live[k], np.ndarray)]:
            value = self.live[number]
            if value.base is not None:
                self.fixed.add(number)
                if value.__array_interface__["data"][0] in owned:
                    del self.contents[number]

    # The objects as they are --------------------------------------------------------

    def places(self, number: int) -> Places:
        """Return the places of an object as they are now; not to be changed."""
        return self._readers[number](self.live[number])

    def _reader(self, number: int) -> Callable[[Any], Places]:
        kind: Any = type(self.live[number])
        if number < self.num_layers:
            layer: Any = self._layers[number]
            return lambda _: layer.state()
        if kind is np.ndarray and "base" in self.first[number]:
            return lambda value: {"base": owner_of(value)}
        how = places_in(self.live[number])
        if how is None or is_constant(kind) or memory_of(kind):
            return lambda _: {}
        return how[0]

    def set_places(self, number: int, now: Places, wanted: Places) -> None:
        """Make the places of an object, as they are now, exactly `wanted`."""
        value = self.live[number]
        if number < self.num_layers:
            self._layers[number].take_back([name for name in now if name not in wanted])  # type: ignore[misc]
            vars(value).update(wanted)
            return
        how = places_in(value)
        if how is not None:
            how[1](value, wanted)

    def has_attributes_alone(self, number: int) -> bool:
        """Return whether an object's `vars` are all of its places."""
        return number < self.num_layers or self._readers[number] is vars

    def is_first(self, number: int) -> bool:
        """Return whether an object is unchanged; False if it holds more than texts."""
        exact = self._exact.get(number)
        if exact is None:
            return False
        live = self.live[number]
        keys, first, kinds = exact
        if type(live) is not list:
            if list(live) != keys:
                return False
            live = list(live.values())
        return live == first and (kinds is None or list(map(type, live)) == kinds)

    @staticmethod
    def is_set(now: Places, wanted: Places) -> bool:
        """Return whether the places of an object, as they are now, are `wanted` already."""
        if list(now) != list(wanted):
            return False
        return all(
            value is wanted[place] or (is_atom(type(value)) and same_atom(value, wanted[place]))
            for place, value in now.items()
        )

    def content(self, number: int) -> Any:
        """Return a copy of the content of an object."""
        value = self.live[number]
        return content_of(type(value))[0](value)  # type: ignore[index]

    def set_content(self, number: int, wanted: Any) -> None:
        """Set the content of an object in place."""
        value = self.live[number]
        content_of(type(value))[1](value, wanted)  # type: ignore[index]

    def home_of(self, value: Any) -> int | None:
        """Return the number of an object that the constructor made; None for data and others."""
        return self._homes.get(id(value))

    def may_be(self, number: int, value: Any) -> bool:
        """Accept an object as the one of a number, if it fits; return whether it does."""
        live = self.live[number]
        if value is live:
            return True
        kind: Any = type(live)
        if is_outside(kind) or type(value) is not kind or number < self.num_layers:
            return False
        if number in self.memories:
            if not self.memories[number].move(value):
                return False
        elif kind is types.FunctionType:
            if value.__code__ is not live.__code__:
                return False
        elif kind is np.ndarray:
            # What is a view, or an array of objects, is one wherever it is.
            of_objects = live.dtype.hasobject
            if value.dtype.hasobject != of_objects or value.base is not None:
                return False
            if live.shape != value.shape if of_objects else number not in self.contents:
                return False
        self.live[number] = value
        return True

    def renew(self, number: int) -> None:
        """Put a fresh object in the place of one that the env no longer holds."""
        live = self.live[number]
        kind: Any = type(live)
        if number in self._made:
            self.live[number] = self._made[number]
        elif number in self.contents and kind is np.ndarray:
            self.live[number] = self.contents[number].copy()
        elif kind in (list, set, *_DICTS):
            self.live[number] = copy.copy(live)

    def value(self, standing: Any) -> Any:
        """Return the present object of a placeholder."""
        if type(standing) is Ref:
            return self.live[standing.number]
        if type(standing) is Group:
            items = tuple(map(self.value, standing.items))
            return items if standing.kind is tuple else tuple.__new__(standing.kind, items)
        if type(standing) is Bound:
            return types.MethodType(standing.function, self.value(standing.owner))
        return standing

    # Hashes of what the constructor made -----------------------------------------------

    def _hashed_places(self, number: int) -> dict[Any, int]:
        return {
            place: hashed(number, text_of(place), self._hash_text(standing))
            for place, standing in self.first[number].items()
        }

    def _hash_text(self, standing: Any) -> Any:
        if type(standing) is Ref:
            return standing.number
        if type(standing) is Group:
            return [name_of(standing.kind), *map(self._hash_text, standing.items)]
        if type(standing) is Bound:
            return [name_of(standing.function), self._hash_text(standing.owner)]
        return text_of(standing)

    def _hashed_content(self, number: int) -> int:
        found = self.contents[number]
        if isinstance(found, np.ndarray):
            found = found.dtype.str, found.shape, found.tobytes()
        elif isinstance(found, set):
            found = sorted(map(repr, map(text_of, found)))
        return hashed(number, found)

    def rest(self, numbers: dict[int, Iterable[Any] | None]) -> int:
        """Return a hash of the constructor's objects, without a state's own parts.

        Args:
            numbers: places that are written, by number of the object; None for all it has.
        """
        rest, zeros = self.total, itertools.repeat(0)
        for number, written in numbers.items():
            hashes = self._hashes[number]
            found = hashes.values() if written is None else map(hashes.get, written, zeros)
            rest -= sum(found) + self._content_hashes.get(number, 0)
        return rest & _MASK


def _exact(first: Places) -> tuple[list[Any], list[Any], list[Any] | None] | None:
    """Return keys, values and types of places that can be compared as a whole, or None."""
    values = list(first.values())
    kinds = list(map(type, values))
    if not values or not set(kinds) <= set(_EXACT):
        return None
    # What equals a text is one.
    return list(first), values, None if set(kinds) == {str} else kinds

"""Traversal of an env's objects that writes their differences from their initial content."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

import numpy as np

from plangym_ext.errors import DamagedState
from plangym_ext.states.graph.writer import GraphWriter
from plangym_ext.states.in_place.kinds import Bound, Group, Ref, has_no_parts, is_atom, same_atom
from plangym_ext.states.in_place.objects import Objects
from plangym_ext.states.in_place.seen import Seen
from plangym_ext.states.plain import NotPlain
from plangym_ext.states.randomness.random_bytes import RANDOM_TYPES, random_bytes

#: What a graph calls a numbered object; an array of simulator k is of layer `_OF_MEMORY - k`.
_NUMBERED, _OF_MEMORY = -1, -2
_GENERATOR = "_np_random"


def written_places(
    objects: Objects, entries: dict[int, Any], unreached: Iterable[int]
) -> dict[int, Any]:
    """Return the places that a state writes itself, as `Objects.rest` takes them."""
    found: dict[int, Any] = dict.fromkeys(unreached)
    for number, entry in entries.items():
        if entry is None:
            continue
        whole = number in objects.contents or entry[0]
        found[number] = None if whole else (*entry[1], *entry[2])
    return found


def same_entry(one: Any, two: Any) -> bool:
    """Return whether two entries of an object set it to the same."""
    if one is None or two is None or len(one) != len(two):
        return one is two
    if len(one) == 1:
        return _same_content(one[0], two[0])
    return (
        (one[0], one[2]) == (two[0], two[2])
        and len(one[1]) == len(two[1])
        and all(map(_same_value, one[1], two[1]))
        and all(map(_same_value, one[1].values(), two[1].values()))
    )


def _same_value(one: Any, two: Any) -> bool:
    return one is two or (has_no_parts(one) and has_no_parts(two) and same_atom(one, two))


def _same_content(one: Any, two: Any) -> bool:
    if isinstance(one, np.ndarray):
        same = one.dtype == two.dtype and one.shape == two.shape
        return same and one.tobytes() == two.tobytes()
    return bool(one == two)


class Names(dict[int, tuple[int, str]]):
    """Graph names of the numbered objects, and of arrays in the simulators' memory.

    Attributes:
        arrays: those of them that are arrays, by `id`.
    """

    def __init__(self, objects: Objects) -> None:
        super().__init__()
        self._objects = objects
        self.arrays: set[int] = set()
        self._generators: dict[int, Any] = {}
        self._named: dict[int, Any] = {}
        #: Of each number what it is called: the same tuple each time, which is compared at once.
        self._called = [(_NUMBERED, str(number)) for number in range(len(objects.live))]
        self._of_memory: dict[int, list[Any]] = {}

    def name(self, number: int) -> None:
        """Register an object under its number, in place of an earlier object of that number."""
        value = self._objects.live[number]
        before = self._named.get(number)
        if before is value and self.get(id(value)) is self._called[number]:
            return
        if before is not None:
            self.forget(number)
        self._named[number] = value
        self[id(value)] = self._called[number]
        if type(value) is np.ndarray:
            self.arrays.add(id(value))
        memory = self._objects.memories.get(number)
        if memory is not None:
            self._of_memory[number] = list(memory.arrays().values())
            for name, array in memory.arrays().items():
                self.setdefault(id(array), (_OF_MEMORY - number, name))
                self.arrays.add(id(array))

    def forget(self, number: int) -> None:
        """Remove the name of an object that no longer exists in the env."""
        value = self._named.pop(number, None)
        if value is None:
            return
        if self.get(id(value)) is self._called[number]:
            del self[id(value)]
            self.arrays.discard(id(value))
        for array in self._of_memory.pop(number, ()):
            if self.get(id(array), (0, ""))[0] == _OF_MEMORY - number:
                del self[id(array)]
            self.arrays.discard(id(array))

    def name_generators(self) -> None:
        """Name the generators of the layers, which a reset makes and a state sets in place."""
        for number in range(self._objects.num_layers):
            found = vars(self._objects.live[number]).get(_GENERATOR)
            before = self._generators.get(number)
            if found is before or self.get(id(found), (0, ""))[0] < 0:
                continue
            if before is not None and self.get(id(before)) == (number, _GENERATOR):
                del self[id(before)]
            # Kept alive, so that its `id` is its own.
            self._generators[number] = found
            if found is not None:
                self[id(found)] = number, _GENERATOR

    def is_generator(self, value: Any) -> bool:
        """Return whether an object is the present generator of a layer."""
        layers = self._objects.live[: self._objects.num_layers]
        return any(vars(layer).get(_GENERATOR) is value for layer in layers)

    def generator_bytes(self) -> tuple[bytes, ...]:
        """Return the states of the generators of the layers."""
        layers = self._objects.live[: self._objects.num_layers]
        found = [vars(layer).get(_GENERATOR) for layer in layers]
        return tuple(random_bytes(one) for one in found if isinstance(one, RANDOM_TYPES))

    def find(self, layer: int, name: str) -> Any:
        """Return the object of a name."""
        objects = self._objects
        if 0 <= layer < objects.num_layers and name == _GENERATOR:
            return vars(objects.live[layer]).get(name)
        if layer == _NUMBERED and name.isdigit() and int(name) < len(objects.live):
            return objects.live[int(name)]
        memory = objects.memories.get(_OF_MEMORY - layer)
        found = memory.arrays().get(name) if memory is not None else None
        if found is None:
            raise DamagedState(f"state: it refers to {name!r} of {layer}, which is not there")
        return found


def _is_owned_array(value: Any) -> bool:
    return type(value) is np.ndarray and value.base is None and not value.dtype.hasobject


class Look:
    """Traversal of all objects for their differences, which starts from the last traversal.

    Attributes:
        entries: how objects differ, by number; simulators are not among them.
        unreached: numbers of the objects that are not there.
        simulators: numbers of those that are, in order.
        version: another number after each look that found something else.
        holds_data: whether `entries` hold what may be written to without being another object.
    """

    def __init__(self, objects: Objects, names: Names) -> None:
        self._objects, self._names = objects, names
        self.version = 0
        self._seen: Seen | None = None
        self._walk()

    def again(self) -> None:
        """Traverse the objects once more."""
        if not self.is_known():
            self._walk()

    def is_known(self) -> bool:
        """Look only at changed objects; return False if a whole traversal is needed."""
        if self._seen is None:
            return False
        self._names.name_generators()
        changed = self._seen.changed()
        if changed is None:
            self._seen = None
            return False
        for number in changed:
            self._renew(number)
        live = self._objects.live
        for number, before in self._contents.items():
            value = live[number]
            data = value.tobytes() if type(value) is np.ndarray else None
            if data is None or data != before[0] or (value.dtype, value.shape) != before[1:]:
                self._renew(number)
                if data is not None:
                    self._contents[number] = data, value.dtype, value.shape
        return True

    def _renew(self, number: int) -> None:
        before, entry = self.entries.get(number), self._entry(number)
        if entry is None is before:
            return
        self.version += 1
        self.entries[number] = entry

    def forget(self) -> None:
        """Make the next traversal a whole one."""
        self._seen = None

    def _walk(self) -> None:
        objects = self._objects
        self.version += 1
        self._reached = [False] * len(objects.live)
        self._todo: deque[int] = deque()
        #: Numbers of objects by `id`, as they are met in this look.
        self._numbers: dict[int, int] = {}
        self.entries: dict[int, Any] = {}
        self.simulators: list[int] = []
        for number in range(objects.num_layers):
            self._reach(number)
        self._names.name_generators()
        while self._todo:
            number = self._todo.popleft()
            if number in objects.memories:
                self.simulators.append(number)
                continue
            #: In the order in which they are met, those that do not differ among them.
            self.entries[number] = entry = self._entry(number)
            if entry is not None:
                self._meet(entry)
        self.unreached = tuple(number for number, seen in enumerate(self._reached) if not seen)
        for number in self.unreached:
            self._names.forget(number)
            if id(objects.live[number]) in self._numbers:
                objects.renew(number)
        #: Of numbers of objects with content what arrays held at the last quick look.
        self._contents: dict[int, Any] = {
            number: (None,) for number in self.entries if number in objects.contents
        }
        changed = [
            value
            for number, entry in self.entries.items()
            if entry is not None and number not in objects.contents
            for value in entry[1].values()
        ]
        held = [value for value in changed if not has_no_parts(value)]
        self.holds_data = not all(id(value) in self._names for value in held)
        self._seen = None
        if all(id(value) in self._names or _is_owned_array(value) for value in held):
            self._seen = Seen(objects, (k for k in self.entries if k in objects.followed))

    def body(self) -> list[Any]:
        """Return the numbers and entries of the objects that differ, one after the other."""
        found: list[Any] = []
        for number, entry in self.entries.items():
            if entry is not None:
                found += (number, entry)
        return found

    def holder(self, error: NotPlain) -> str:
        """Return a message about an item without a form in graphs, and the object with it."""
        for number, entry in self.entries.items():
            writer = GraphWriter(self._names, {}, learns=True)
            writer.put(entry)
            try:
                writer.data()
            except NotPlain as found:
                if str(found) == str(error):
                    return f"{self._objects.path(number)} holds {error}"
        return str(error)

    def _meet(self, entry: Any) -> None:
        """Reach the numbered objects that new ones refer to."""
        stack, seen = [entry], set()
        while stack:
            value = stack.pop()
            kind: Any = type(value)
            if is_atom(kind) or id(value) in seen:
                continue
            seen.add(id(value))
            number = self._number(value)
            if number is not None:
                self._reach(number)
            elif kind is np.ndarray:
                self._meet_array(value)
            elif isinstance(value, dict):
                stack += (*value.keys(), *value.values())
            elif isinstance(value, tuple | list | deque | set | frozenset):
                stack += value
            elif hasattr(value, "__self__"):
                stack.append(value.__self__)
            else:
                stack += getattr(value, "__dict__", {}).values()

    def _meet_array(self, value: np.ndarray) -> None:
        base: Any = value
        while type(base) is np.ndarray:
            number = self._number(base)
            if number is not None:
                self._reach(number)
            found = self._names.get(id(base))
            if found is not None and found[0] <= _OF_MEMORY:
                self._reach(_OF_MEMORY - found[0])
            base = base.base

    def _number(self, value: Any) -> int | None:
        """Return the number of an object: as it was met, or as the constructor made it."""
        found = self._numbers.get(id(value))
        if found is None:
            found = self._objects.home_of(value)
            if found is not None and (
                self._reached[found] or not self._objects.may_be(found, value)
            ):
                return None
        return found

    def _reach(self, number: int) -> None:
        if not self._reached[number]:
            self._reached[number] = True
            self._numbers[id(self._objects.live[number])] = number
            self._names.name(number)
            self._todo.append(number)

    def _entry(self, number: int) -> Any:
        """Return how an object differs from what the constructor made; None if it does not."""
        objects = self._objects
        if number in objects.contents:
            return self._content(number)
        if objects.is_first(number):
            return None
        first, now = objects.first[number], objects.places(number)
        changed = {
            place: value
            for place, value in now.items()
            if place not in first
            or (value is not (standing := first[place]) and not self._is_same(value, standing))
        }
        gone = tuple(place for place in first if place not in now)
        if not changed and not gone and len(now) == len(first):
            return None
        if not self._may_change(number):
            raise NotPlain(f"{objects.path(number)}, a {type(objects.live[number]).__qualname__}")
        kept = [place for place in first if place in now]
        whole = [place for place in now if place in first] != kept
        return whole, dict(now) if whole else changed, gone

    def _may_change(self, number: int) -> bool:
        kind: Any = type(self._objects.live[number])
        return number in self._objects.followed and kind.__name__ not in ("function", "partial")

    def _content(self, number: int) -> Any:
        live, first = self._objects.live[number], self._objects.contents[number]
        if type(live) is np.ndarray and _same_content(live, first):
            return None  # without a copy of it
        now = self._objects.content(number)
        return None if _same_content(now, first) else (now,)

    def _is_same(self, value: Any, standing: Any) -> bool:
        """Return whether a place is unchanged; visit its object."""
        kind = type(standing)
        if kind is Ref:
            return self._is_object(value, standing.number)
        if kind is Group:
            return (
                type(value) is standing.kind
                and len(value) == len(standing.items)
                and all(map(self._is_same, value, standing.items))
            )
        if kind is Bound:
            return getattr(value, "__func__", None) is standing.function and self._is_same(
                value.__self__, standing.owner
            )
        return value is standing or (
            (is_atom(type(value)) or kind in (tuple, frozenset)) and same_atom(value, standing)
        )

    def _is_object(self, value: Any, number: int) -> bool:
        objects = self._objects
        if (
            value is objects.live[number]
            and self._numbers.get(id(value), number) == number
            and objects.home_of(value) in (None, number)
        ):
            self._reach(number)
            return True
        found = self._number(value)
        if found is None and not self._reached[number]:
            # Another one of its class, in its place.
            found = number if self._objects.may_be(number, value) else None
        if found is not None:
            self._reach(found)
        return found == number

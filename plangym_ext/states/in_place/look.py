"""Traversal of an env's objects that writes their differences from the first ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

import numpy as np

from plangym_ext.errors import DamagedState
from plangym_ext.states.graph.writer import GraphWriter
from plangym_ext.states.in_place.kinds import is_atom
from plangym_ext.states.in_place.objects import Objects
from plangym_ext.states.in_place.standing import Bound, Group, Ref, same_atom
from plangym_ext.states.plain import NotPlain

#: What a graph calls a numbered object; an array of simulator k is of layer `_OF_MEMORY - k`.
_NUMBERED, _OF_MEMORY = -1, -2
_GENERATOR = "_np_random"


def written_places(
    objects: Objects, entries: dict[int, Any], unreached: Iterable[int]
) -> dict[int, Any]:
    """Return the places that a state writes itself, as `Objects.rest` takes them."""
    found: dict[int, Any] = dict.fromkeys(unreached)
    for number, entry in entries.items():
        if number in objects.memories:
            continue
        whole = number in objects.contents or entry[0]
        found[number] = None if whole else (*entry[1], *entry[2])
    return found


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
        """Give an object its number, which it has had before or not."""
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
        """Take the name of an object that is nowhere."""
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


class Look:
    """One traversal of all objects, which finds their differences."""

    def __init__(self, objects: Objects, names: Names) -> None:
        self._objects, self._names = objects, names
        self._reached = [False] * len(objects.live)
        self._todo: deque[int] = deque()
        #: Numbers of objects by `id`, as they are met in this look.
        self._numbers: dict[int, int] = {}
        for number in range(objects.num_layers):
            self._reach(number)
        self._entries: dict[int, Any] = {}

    def write(self, writer: GraphWriter) -> int:
        """Append the objects that differ; return the hash of the rest."""
        objects = self._objects
        self._names.name_generators()
        body: list[Any] = []
        while self._todo:
            number = self._todo.popleft()
            entry = self._entry(number)
            if entry is not None:
                self._entries[number] = entry
                body += (number, entry)
                if number not in objects.memories:
                    self._meet(entry)
        unreached = tuple(number for number, seen in enumerate(self._reached) if not seen)
        for number in unreached:
            self._names.forget(number)
            if id(objects.live[number]) in self._numbers:
                objects.renew(number)
        rest = objects.rest(written_places(objects, self._entries, unreached))
        for number, memory in objects.memories.items():
            if self._reached[number]:
                rest ^= memory.rest(self._entries.get(number, b""))
        for value in (unreached, *body):
            writer.put(value)
        return rest

    def holder(self, error: NotPlain) -> str:
        """Return the path of the object that holds a value without a place in a graph."""
        for number, entry in self._entries.items():
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
        memory = objects.memories.get(number)
        if memory is not None:
            return memory.read() or None
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
        now, first = self._objects.content(number), self._objects.contents[number]
        if isinstance(now, np.ndarray):
            same = now.dtype == first.dtype and now.shape == first.shape
            same = same and now.tobytes() == first.tobytes()
        else:
            same = bool(now == first)
        return None if same else (now,)

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

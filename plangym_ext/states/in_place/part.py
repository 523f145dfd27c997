"""InPlacePart: state as the difference from the env that the constructor made.

The objects that the env refers to stay the objects they are; their attributes, items and
numbers are set in place. What a state does not name is as the constructor left it, and a
hash of that tells an env whose constructor left it otherwise.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np

from plangym_ext.errors import DamagedState, ForeignState, IncompleteState
from plangym_ext.states import protocols, trust
from plangym_ext.states.graph.reader import GraphReader
from plangym_ext.states.graph.writer import GraphWriter, name_of
from plangym_ext.states.in_place.look import Look, Names, written_places
from plangym_ext.states.in_place.objects import Objects
from plangym_ext.states.nameable import AnyThing, Nameable
from plangym_ext.states.part import StatePart, get_block, put_block
from plangym_ext.states.plain import NotPlain

#: Room for growth: states of one env differ in size as objects come and go.
_SLACK = 1.1
#: Objects as constructors left them, by simulator; see `remember`.
_remembered: weakref.WeakKeyDictionary[Any, Objects] = weakref.WeakKeyDictionary()


def holds_simulator(simulator: Any) -> bool:
    """Return whether the objects of a new env were remembered, as it holds a simulator."""
    return simulator in _remembered


def remember(layers: list[Any]) -> None:
    """Look at a new env before its first reset, if it holds a simulator.

    Args:
        layers: of the env, the simulator last.
    """
    try:
        found = Objects(layers[-1:], layers[:-1])
    except IncompleteState:
        return
    if found.memories:
        _remembered[layers[-1]] = found


class InPlacePart(StatePart):
    """Objects and simulators that some layers of an env refer to.

    Args:
        layers: the layers whose attributes are the state, the simulator among them.
        stack: all layers of the env.
        trusted: open what another session wrote, objects of any class among it.

    Raises:
        IncompleteState: the env refers to an object of which nothing is known, or holds no
            simulator.
    """

    method = "simulator"
    may_refuse = True

    def __init__(self, layers: list[Any], stack: list[Any], *, trusted: bool = False) -> None:
        own = set(map(id, layers))
        others = [layer for layer in stack if id(layer) not in own]
        # As the constructor made them, if a look was taken in time; the reset may have drawn.
        remembered = _remembered.get(stack[-1]) if len(layers) == 1 else None
        self._objects = remembered or Objects(layers, others)
        if not self._objects.memories:
            raise IncompleteState(f"{type(stack[-1]).__qualname__}: it holds no known simulator")
        self._trusted = trusted
        self._nameable = Nameable(stack)
        for value in self._objects.live:
            self._nameable.known.setdefault(name_of(type(value)), type(value))
        self._any = AnyThing(self._nameable.known)
        self._names: Names = Names(self._objects)
        data = self._data(learns=True)
        self.width = int(len(data) * _SLACK) + 256

    def identity(self) -> dict[str, Any]:
        """Return classes of all objects, and the simulators' versions."""
        memories = [memory.identity() for memory in self._objects.memories.values()]
        return {"objects": self._objects.structure(), "simulators": memories}

    def capture(self, buffer: memoryview, offset: int, end: int) -> int:
        """Write the differences from the constructor's objects."""
        return put_block(buffer, offset, end, self._data())

    def _data(self, *, learns: bool = False) -> bytes:
        look = Look(self._objects, self._names)
        writer = GraphWriter(self._names, self._nameable.known, learns=learns)
        try:
            rest = look.write(writer)
            writer.tied = set(self._names.arrays)
            data = rest.to_bytes(8, "little") + writer.data()
        except NotPlain as error:
            raise IncompleteState(
                f"state: {look.holder(error)}, of which nothing is known. Keep it out of what a "
                "step changes, give the env get_state and set_state, or use state='replay'."
            ) from error
        vouched = protocols.are_written(writer.table) or not self._nameable.needs_no_word(
            writer.shapes, writer.references
        )
        return (trust.digest(data) if vouched else bytes(trust.DIGEST_BYTES)) + data

    def restore(self, buffer: memoryview, offset: int) -> int:
        """Set every object to the state's content, or to the constructor's."""
        data, offset = get_block(buffer, offset)
        claimed, data = data[: trust.DIGEST_BYTES], data[trust.DIGEST_BYTES :]
        vouched = self._trusted or (any(claimed) and trust.is_ours(data, claimed))
        finder: Any = self._any if vouched else self._nameable
        reader = GraphReader(data[8:], self._names.find, finder)
        unreached, *body = reader.get()
        entries = dict(zip(body[::2], body[1::2], strict=False))
        self._check(entries, unreached, careful=finder.careful)
        self._check_rest(int.from_bytes(data[:8], "little"), entries, unreached)
        reader.end()
        self._apply(entries, frozenset(unreached))
        return offset

    def _check(self, entries: dict[int, Any], unreached: Any, *, careful: bool) -> None:
        """Refuse what is not of the objects that it names."""
        objects = self._objects
        numbers = range(len(objects.live))
        good = type(unreached) is tuple and all(
            type(number) is int and number in numbers for number in unreached
        )
        if not good or not all(type(number) is int and number in numbers for number in entries):
            raise DamagedState(f"state: it names objects beyond the {len(numbers)} of this env")
        for number, entry in entries.items():
            path = objects.path(number)
            if number in objects.memories:
                if type(entry) is not bytes:
                    raise DamagedState(f"state: {path} is not set by a {type(entry).__name__}")
                continue
            if number in objects.contents:
                _check_content(objects, number, entry)
                continue
            if not (
                type(entry) is tuple
                and list(map(type, entry)) == [bool, dict, tuple]
                and number in objects.followed
            ):
                raise DamagedState(f"state: {path} is not set by a {type(entry).__name__}")
            if careful and hasattr(objects.live[number], "__dict__"):
                names = tuple(name for name in entry[1] if isinstance(name, str))
                self._nameable.check_layer(objects.live[number], names)

    def _check_rest(self, claimed: int, entries: dict[int, Any], unreached: Iterable[int]) -> None:
        objects = self._objects
        rest = objects.rest(written_places(objects, entries, unreached))
        for number, memory in objects.memories.items():
            if number not in unreached:
                rest ^= memory.rest(entries.get(number, b""))
        if rest != claimed:
            raise ForeignState(
                f"state: it belongs to an env whose constructor left {objects.path(0)} otherwise: "
                "with other data, or with random numbers that no reset draws again. States fit "
                "envs of the same arguments."
            )

    def _apply(self, entries: dict[int, Any], unreached: frozenset[int]) -> None:
        objects = self._objects
        numbers = [number for number in range(len(objects.live)) if number not in unreached]
        for number in objects.replaceable:
            if number not in unreached:
                self._replace_array(number, entries)
        # Numbers of a model before those that are computed with it.
        for number in sorted(objects.memories, key=lambda k: objects.memories[k].rank):
            if number not in unreached:
                objects.memories[number].write(entries.get(number, b""))
        for number in numbers:
            if number in objects.contents:
                wanted = entries[number][0] if number in entries else objects.contents[number]
                objects.set_content(number, wanted)
            elif number in objects.followed:
                if number not in entries and objects.is_first(number):
                    continue
                now = objects.places(number)
                places = _wanted(objects, number, entries.get(number))
                if not objects.is_set(now, places):
                    objects.set_places(number, now, places)

    def _replace_array(self, number: int, entries: dict[int, Any]) -> None:
        """Put a fresh array in the place of one that may have been handed out."""
        objects = self._objects
        live = objects.live[number]
        first = objects.contents[number]
        wanted = entries[number][0] if number in entries else first
        same = live.dtype == wanted.dtype and live.shape == wanted.shape
        if not same or live.tobytes() != wanted.tobytes():
            objects.live[number] = wanted.copy()


def _check_content(objects: Objects, number: int, entry: Any) -> None:
    first = objects.contents[number]
    good = type(entry) is tuple and len(entry) == 1 and type(entry[0]) is type(first)
    if good and isinstance(first, np.ndarray) and number in objects.fixed:
        good = entry[0].dtype == first.dtype and entry[0].shape == first.shape
    if not good:
        raise DamagedState(f"state: {objects.path(number)} is not set by what the state has for it")


def _wanted(objects: Objects, number: int, entry: Any) -> dict[Any, Any]:
    """Return the places of an object in a state."""
    whole, changed, gone = entry or (False, {}, ())
    if whole:
        return dict(changed)
    if entry is None:
        value = objects.value
        return {place: value(standing) for place, standing in objects.first[number].items()}
    places = {
        place: objects.value(standing)
        for place, standing in objects.first[number].items()
        if place not in gone and place not in changed
    }
    # In the order of the first ones, with what is new at the end.
    return {
        place: changed[place] if place in changed else places[place]
        for place in (*objects.first[number], *changed)
        if place in changed or place in places
    }

"""InPlacePart: state as the difference from the env that the constructor made.

The objects that the env refers to stay the objects they are; their attributes, items and
numbers are set in place. What a state does not name is as the constructor left it, and a
hash of that tells an env whose constructor left it otherwise.
"""

from __future__ import annotations

import struct
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np

from plangym_ext.errors import DamagedState, ForeignState, IncompleteState
from plangym_ext.states import part, trust
from plangym_ext.states.graph.reader import GraphReader
from plangym_ext.states.graph.writer import GraphWriter, name_of
from plangym_ext.states.in_place.kinds import has_no_parts
from plangym_ext.states.in_place.look import Look, Names, same_entry, written_places
from plangym_ext.states.in_place.objects import Objects
from plangym_ext.states.nameable import AnyThing, Nameable
from plangym_ext.states.part import StatePart, block_at, put_block
from plangym_ext.states.plain import NotPlain
from plangym_ext.states.randomness import random_bytes

#: Room for growth: states of one env differ in size as objects come and go.
_SLACK = 1.1
_NOTHING = memoryview(b"")
_NO_DIGEST = bytes(trust.DIGEST_BYTES)
#: The hash of the rest; how many simulators and bytes of the graph, or a number and its bytes.
_REST, _HEAD = struct.Struct("<Q"), struct.Struct("<II")
#: How many graphs are remembered that were read, and of how many bytes at most.
_MOST_SAID, _LARGE = 64, 1 << 16
#: Objects as constructors left them, by simulator; see `remember`.
_remembered: weakref.WeakKeyDictionary[Any, Objects] = weakref.WeakKeyDictionary()


def holds_simulator(simulator: Any) -> bool:
    """Return whether the objects of a new env were remembered, as it holds a simulator."""
    return simulator in _remembered


def remember(layers: list[Any]) -> None:
    """Record the objects of a new env before its first reset, if it holds a simulator."""
    try:
        found = Objects(layers[-1:], layers[:-1])
    # What it holds takes more memory than there is: it is captured in another way, or refused.
    except (IncompleteState, MemoryError):
        return
    if found.memories:
        _remembered[layers[-1]] = found


@dataclass(frozen=True, slots=True)
class _Said:
    """Content of a graph that was read.

    Attributes:
        entries: differences of objects from the constructor's, by number.
        unreached: numbers of those that are not there.
        rest: hash of the constructor's objects, without the parts in the graph.
        generators: with the states that they are brought to.
        graph: itself.
    """

    entries: dict[int, Any]
    unreached: frozenset[int]
    rest: int
    generators: list[tuple[Any, Any]]
    graph: bytes


class InPlacePart(StatePart):
    """Objects and simulators that some layers of an env refer to.

    Args:
        layers: the layers whose attributes are the state, the simulator among them.
        stack: all layers of the env.
        trusted: open what another session wrote, objects of any class among it.

    Raises:
        IncompleteState: the env refers to an object that cannot be captured, or holds no simulator.
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
        self._look = Look(self._objects, self._names)
        #: The graph of the last capture, its hash of the rest, and what it is of.
        self._written: tuple[Any, bytes, int, bool] = None, b"", 0, False
        #: Contents of graphs of values without parts.
        self._all_said: dict[tuple[bytes, bool], _Said] = {}
        memories = self._objects.memories
        self._ranked = sorted(memories, key=lambda number: memories[number].rank)
        size = sum(map(len, self._data(learns=True)))
        # Of a simulator more numbers may differ in a moment than right after a reset.
        room = sum(memory.most for memory in memories.values())
        self.width = max(int(size * _SLACK), room) + 256

    def identity(self) -> dict[str, Any]:
        """Return classes of all objects, and the simulators' versions."""
        memories = [memory.identity() for memory in self._objects.memories.values()]
        return {"objects": self._objects.structure(), "simulators": memories, "layout": 2}

    def capture(self, buffer: memoryview, offset: int, end: int) -> int:
        """Write the differences from the constructor's objects."""
        return put_block(buffer, offset, end, *self._data())

    def _data(self, *, learns: bool = False) -> list[bytes | memoryview]:
        look, memories = self._look, self._objects.memories
        look.again()
        graph, rest, vouched = self._graph(learns=learns)
        held = [memories[number].read() for number in look.simulators]
        for number, found in zip(look.simulators, held, strict=True):
            rest ^= memories[number].rest(found)
        sizes = zip(look.simulators, map(len, held), strict=True)
        heads = [_HEAD.pack(*size) for size in ((len(held), len(graph)), *sizes)]
        parts = [_REST.pack(rest), *heads, graph, *held]
        return [trust.digest(b"".join(parts)) if vouched else _NO_DIGEST, *parts]

    def _key(self) -> Any:
        """Return the key of a written graph; None if it must be written again each time."""
        return (
            None if self._look.holds_data else (self._look.version, self._names.generator_bytes())
        )

    def _graph(self, *, learns: bool) -> tuple[bytes, int, bool]:
        """Return the objects that differ, the hash of the others, and whether it is vouched for."""
        look = self._look
        key = self._key()
        if learns or key is None or key != self._written[0]:
            writer = GraphWriter(self._names, self._nameable.known, learns=learns)
            for value in (look.unreached, *look.body()):
                writer.put(value)
            writer.tied = set(self._names.arrays)
            try:
                graph = writer.data()
            except NotPlain as error:
                raise IncompleteState(
                    f"state: {look.holder(error)}, a type that cannot be captured. Have no step "
                    "change it, give the env get_state and set_state, or use capture='replay'."
                ) from error
            vouched = part.are_written(writer.table) or not self._nameable.needs_no_word(
                writer.shapes, writer.references
            )
            rest = self._objects.rest(written_places(self._objects, look.entries, look.unreached))
            self._written = key, graph, rest, vouched
        return self._written[1:]

    def restore(self, buffer: memoryview, offset: int) -> int:
        """Set every object to the state's content, or to the constructor's."""
        # Not copied: of some simulators it is much.
        start, offset = block_at(buffer, offset)
        claimed, data = bytes(buffer[start : start + trust.DIGEST_BYTES]), buffer[start:offset]
        data = data[trust.DIGEST_BYTES :]
        vouched = self._trusted or (any(claimed) and trust.is_ours(data, claimed))
        graph, held = self._parted(data)
        found = self._said(graph, vouched=vouched)
        rest = found.rest
        for number, memory in self._objects.memories.items():
            if number not in found.unreached:
                rest ^= memory.rest(held.get(number, _NOTHING))
        if rest != _REST.unpack_from(data)[0]:
            raise ForeignState(
                f"state: it belongs to an env whose constructor left {self._objects.path(0)} "
                "otherwise: with other data, or with random numbers that no reset draws again. "
                "States fit envs of the same arguments."
            )
        random_bytes.set_all(found.generators)
        self._apply(found, held)
        return offset

    def _parted(self, data: memoryview) -> tuple[bytes, dict[int, memoryview]]:
        """Return the graph of a state, and what it has of each simulator."""
        at = _REST.size + _HEAD.size
        if len(data) < at:
            raise DamagedState("state: it is cut off")
        count, size = _HEAD.unpack_from(data, _REST.size)
        stop = at + count * _HEAD.size
        if stop + size > len(data):
            raise DamagedState("state: it is cut off")
        heads = [_HEAD.unpack_from(data, start) for start in range(at, stop, _HEAD.size)]
        graph, at = bytes(data[stop : stop + size]), stop + size
        held: dict[int, memoryview] = {}
        for number, size in heads:
            held[number] = data[at : at + size]
            at += size
        if (
            at != len(data)
            or len(held) != count
            or not held.keys() <= self._objects.memories.keys()
        ):
            raise DamagedState("state: the simulators in it are not those of this env")
        return graph, held

    def _said(self, graph: bytes, *, vouched: bool) -> _Said:
        """Return the content of a graph."""
        found = self._all_said.get((graph, vouched))
        if found is not None and all(self._names.is_generator(one) for one, _ in found.generators):
            return found
        finder: Any = self._any if vouched else self._nameable
        reader = GraphReader(graph, self._names.find, finder)
        unreached, *body = reader.get()
        entries = dict(zip(body[::2], body[1::2], strict=False))
        self._check(entries, unreached, careful=finder.careful)
        rest = self._objects.rest(written_places(self._objects, entries, unreached))
        found = _Said(entries, frozenset(unreached), rest, reader.generators, graph)
        if len(graph) < _LARGE and self._is_plain(found):
            if len(self._all_said) >= _MOST_SAID:
                self._all_said.clear()
            self._all_said[graph, vouched] = found
        return found

    def _is_plain(self, said: _Said) -> bool:
        """Return whether the same entries can be set again."""
        return all(
            has_no_parts(value) or self._names.is_generator(value)
            for number, entry in said.entries.items()
            if number not in self._objects.contents  # which is copied
            for value in entry[1].values()
        )

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
            if number in objects.contents:
                _check_content(objects, number, entry)
                continue
            if not (
                type(entry) is tuple
                and list(map(type, entry)) == [bool, dict, tuple]
                and number in objects.followed
            ):
                raise DamagedState(f"state: {path} cannot be set to a {type(entry).__name__}")
            if careful and hasattr(objects.live[number], "__dict__"):
                names = tuple(name for name in entry[1] if isinstance(name, str))
                self._nameable.check_layer(objects.live[number], names)

    def _apply(self, said: _Said, held: dict[int, memoryview]) -> None:
        objects, look = self._objects, self._look
        entries, unreached = said.entries, said.unreached
        known = look.is_known() and unreached == frozenset(look.unreached)
        differing: Any = objects.contents.keys() | objects.followed
        if known:
            found = [k for k, now in look.entries.items() if not same_entry(now, entries.get(k))]
            # A new array takes the place of an old one in every object that holds that, also in
            # those that do not differ otherwise: then all objects are set.
            known = not any(number in objects.replaceable for number in found)
            differing = found if known else differing
        if not known:
            look.forget()
        for number in objects.replaceable:
            if number not in unreached and number in differing:
                self._replace_array(number, entries)
        # Numbers of a model before those that are computed with it.
        for number in self._ranked:
            if number not in unreached:
                objects.memories[number].write(held.get(number, _NOTHING))
        for number in sorted(differing):
            if number not in unreached:
                self._set(number, entries.get(number))
        if known and differing:
            look.is_known()

    def _set(self, number: int, entry: Any) -> None:
        """Bring an object to an entry; None for the constructor's."""
        objects = self._objects
        if number in objects.contents:
            objects.set_content(number, entry[0] if entry else objects.contents[number])
        elif entry is not None or not objects.is_first(number):
            now, places = objects.places(number), _wanted(objects, number, entry)
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
        raise DamagedState(f"state: {objects.path(number)} cannot be set to its content here")


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

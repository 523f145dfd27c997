"""FixedFields: constants of a known simulator, checked in case a wrapper changes them.

A wrapper may change them all the same: gravity from the tenth step on, say, or a time step.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Mapping
from typing import Any

from plangym_ext.errors import DamagedState, IncompleteState
from plangym_ext.states import plain
from plangym_ext.states.families import family_of, is_own_class
from plangym_ext.states.layer_attributes import LayerAttributes
from plangym_ext.states.part import StatePart, get_block, misplaced, put_block

_NUMBERS = (bool, int, float)


class FixedFields:
    """Numeric attributes of a simulator outside its codec, which must not change.

    Args:
        simulator: of the very class that the codec was written for, after a reset.
        codec: the part that captures it; None: nothing is fixed.

    Attributes:
        first: by name, what they are while states are exact.
    """

    def __init__(self, simulator: Any, codec: StatePart | None) -> None:
        self._simulator, self._codec = simulator, codec
        self._name = type(simulator).__qualname__
        self.rebase()

    def rebase(self) -> None:
        """Accept the present values as the fixed ones."""
        codec = self._codec
        fields = {} if codec is None else LayerAttributes(self._simulator, ()).state()
        self._hold(
            {
                name: value
                for name, value in fields.items()
                # gymnasium's record of the seed has no effect: the generator has.
                if type(value) in _NUMBERS
                and name != "_np_random_seed"
                and not (codec is not None and codec.covers(name, value))
            }
        )

    def adopt(self, first: Mapping[str, Any]) -> None:
        """Accept the values of an equal env as the fixed ones."""
        self._hold({name: first.get(name, value) for name, value in self.first.items()})

    def _hold(self, first: dict[str, Any]) -> None:
        self.first = first
        # Once more the first of them: of a single name no tuple would be returned.
        names = (*first, *[*first][:1])
        self._read: Any = operator.itemgetter(*names) if names else None
        self._values = tuple(first[name] for name in names)

    def _is_as_held(self) -> bool:
        """Return whether nothing was changed; in a few hundred nanoseconds, as rows are many."""
        if self._read is None:
            return True
        try:
            # Elements of tuples are compared by identity before anything else.
            return bool(self._read(vars(self._simulator)) == self._values)
        except KeyError:  # one was deleted
            return False

    def changed(self) -> list[str]:
        """Return the names of fields whose values have changed."""
        if self._is_as_held():
            return []
        now = vars(self._simulator)
        return [name for name, value in self.first.items() if not _equal(now.get(name), value)]

    def check(self) -> None:
        """Refuse a capture while the value of a field has changed.

        Raises:
            IncompleteState: one is.
        """
        if self._is_as_held():
            return
        for name in self.changed():
            raise IncompleteState(
                f"{self._name}.{name} must be {self.first[name]!r}, as it was when the state was "
                f"first looked at, since states of this env do not hold it; it is "
                f"{vars(self._simulator).get(name)!r}. Leave it alone, or capture states as "
                f"attributes or by replay: make(..., capture='snapshot') or capture='replay'."
            )

    def put_back(self) -> None:
        """Set the fields to their values at the capture of a state."""
        if not self._is_as_held():
            vars(self._simulator).update(self.first)


def _equal(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


# ExtraFieldsPart --------------------------------------------------------------
# A codec captures what the class it was written for needs. A counter, a goal or a
# history that a subclass keeps beside it would silently be lost.
#
# Only what has changed since the codec was made is captured. What has not is a matter
# of the instance: its arguments, a path, the number of a process that it started.


#: Room for growth, as for a snapshot.
_SLACK = 2.0
#: Bytes of most numbers and texts.
_SCALAR = 32


def plain_fields(simulator: Any) -> dict[str, bytes]:
    """Return plain attributes of a simulator, if its class derives from a known one; else none."""
    family = family_of(simulator)
    if family is None or is_own_class(simulator):
        return {}
    found = {}
    for name, value in LayerAttributes(simulator, ()).state().items():
        with contextlib.suppress(plain.NotPlain):
            found[name] = plain.encode(value, name)
    return found


class ExtraFieldsPart(StatePart):
    """Changed attributes of a simulator outside its codec, as plain data.

    Args:
        layer: the simulator, after a reset.
        codec: the part that captures the class it derives from.

    Raises:
        IncompleteState: an attribute is not plain data.
    """

    method = "plain"

    def __init__(self, layer: Any, codec: StatePart) -> None:
        self._layer, self._codec = layer, codec
        self._attributes = LayerAttributes(layer, ())
        self._name = type(layer).__qualname__
        self._first = {name: self._encoded(name, value) for name, value in self._fields().items()}
        self.width = 256 + sum(map(self._room, self._first))

    def _fields(self) -> dict[str, Any]:
        return {
            name: value
            for name, value in self._attributes.state().items()
            if not self._codec.covers(name, value)
        }

    def _encoded(self, name: str, value: Any) -> bytes:
        try:
            return plain.encode(value, f"{self._name}.{name}")
        except plain.NotPlain as error:
            raise IncompleteState(
                f"{error}, which the codec of the class that {self._name} derives from does not "
                "know. Keep plain data there, give the env get_state and set_state, or register "
                "a codec."
            ) from error

    def _room(self, name: str) -> int:
        """Return bytes that a changed attribute is expected to take."""
        value = vars(self._layer)[name]
        # The same for a short and a long path: rows of two instances are equally wide.
        size = _SCALAR if isinstance(value, str | int | float | None) else len(self._first[name])
        return int(size * _SLACK) + len(name)

    def learned(self, before: Mapping[str, bytes]) -> Any:
        """Return the fields that the first reset set, with values, and names of deleted fields."""
        touched = {name: data for name, data in self._first.items() if before.get(name) != data}
        return touched, sorted(before.keys() - vars(self._layer).keys())

    def adopt(self, learned: Any, before: Mapping[str, bytes]) -> None:
        """Compare with the fields after the twin's first reset; others are this instance's own."""
        touched, gone = learned
        own = {
            name: data
            for name, data in before.items()
            if name not in gone and not self._is_covered(name, data)
        }
        self._first = {**own, **touched}

    def _is_covered(self, name: str, data: bytes) -> bool:
        # The value itself: an array may have to be a view of the simulator's memory.
        now = vars(self._layer)
        value = now[name] if name in now else plain.decode(data)
        return self._codec.covers(name, value)

    def capture(self, buffer: memoryview, offset: int, end: int) -> int:
        """Write attributes that differ from the first ones, and names of deleted ones."""
        changed, fields = {}, self._fields()
        for name in sorted(fields):
            data = self._encoded(name, fields[name])
            if data != self._first.get(name):
                changed[name] = data
        gone = sorted(self._first.keys() - fields.keys())
        return put_block(buffer, offset, end, plain.encode((changed, gone)))

    def restore(self, buffer: memoryview, offset: int) -> int:
        """Set the changed attributes, and undo later changes."""
        data, offset = get_block(buffer, offset)
        wanted = self._wanted(*plain.decode(data))
        fields = self._fields()
        self._attributes.take_back(fields.keys() - wanted.keys())
        for name, value in wanted.items():
            # An object that is right already stays, as others may refer to it.
            if name not in fields or self._encoded(name, fields[name]) != value:
                setattr(self._layer, name, plain.decode(value))
        return offset

    def _wanted(self, changed: dict[str, bytes], gone: list[str]) -> dict[str, bytes]:
        """Return the encoded attributes that a state says, all of them fields."""
        values = {name: plain.decode(data) for name, data in changed.items()}
        self._attributes.check(values)
        kind: Any = type(self._layer)
        wrong = misplaced(kind, tuple(values))
        # By the state's value: the env's present one may be an object that the codec knows.
        codecs = [name for name, value in values.items() if self._codec.covers(name, value)]
        if wrong or codecs or not self._first.keys() >= set(gone):
            what = wrong or ", ".join(map(str, codecs or gone))
            raise DamagedState(
                f"state: {self._name}: it changes {what}, which is no field of this env"
            )
        wanted = {**self._first, **changed}
        return {name: data for name, data in wanted.items() if name not in gone}

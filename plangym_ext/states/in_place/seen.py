"""What the places of objects held when they were last looked at, compared by identity.

Most steps change numbers in the memory of a simulator and a few attributes. Where every other
place holds the object that it held, nothing is reached that was not reached before.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator
from operator import is_
from typing import Any

from plangym_ext.states.in_place.objects import Objects
from plangym_ext.states.in_place.standing import has_no_parts

_DICTS = (dict, OrderedDict, defaultdict)


class _Record:
    """What one object held."""

    __slots__ = ("keys", "live", "now", "values")

    def __init__(self, objects: Objects, number: int) -> None:
        self.live = live = objects.live[number]
        self.keys: list[Any] | None = None
        #: From the object to its places: a mapping if there are keys, else the values alone.
        self.now: Any = lambda live: list(objects.places(number).values())
        if type(live) in (list, *_DICTS):
            self.now = None
        elif objects.has_attributes_alone(number):
            self.now = vars
        if self.now is vars or type(live) in _DICTS:
            self.keys = list(self.places())
        self.values = self.read()

    def places(self) -> Any:
        return self.live if self.now is None else self.now(self.live)

    def read(self) -> list[Any]:
        now = self.places()
        return list(now if self.keys is None else now.values())

    def differs(self) -> bool:
        now, keys, values = self.places(), self.keys, self.values
        if len(now) != len(values):
            return True
        if keys is not None:
            if not all(map(is_, now, keys)):
                return True
            now = now.values()
        return not all(map(is_, now, values))

    def has_other_atoms(self) -> bool:
        """See the object as it is; return whether no other object with parts came or went."""
        before, self.values = self.values, self.read()
        return (
            len(before) == len(self.values)
            and (self.keys is None or all(map(is_, self.places(), self.keys)))
            and all(
                old is new or (has_no_parts(old) and has_no_parts(new))
                for old, new in zip(before, self.values, strict=True)
            )
        )


class Seen:
    """The places of some objects as they are now, and later what has changed in them.

    Args:
        objects: of an env.
        numbers: of those whose places are looked at.
    """

    def __init__(self, objects: Objects, numbers: Iterable[int]) -> None:
        self._records = {number: _Record(objects, number) for number in numbers}

    def changed(self) -> Iterator[tuple[int, bool]]:
        """Yield the numbers of the objects that hold something else, which is seen with that.

        Beside each number: whether values without parts alone came or went.
        """
        for number, record in self._records.items():
            if record.differs():
                yield number, record.has_other_atoms()

    def note(self, number: int) -> bool:
        """See an object as it is now; return whether values without parts alone are others."""
        return self._records[number].has_other_atoms()

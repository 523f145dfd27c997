"""Detection of changed references between two captures, by identity.

Most steps change numbers in the memory of a simulator and a few attributes. Where every other place
still holds the same object, no new objects are reachable.
"""

from __future__ import annotations

import ctypes
from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from itertools import chain
from operator import methodcaller
from typing import Any

import numpy as np

from plangym_ext.states.in_place.kinds import has_no_parts
from plangym_ext.states.in_place.objects import Objects

_DICTS = (dict, OrderedDict, defaultdict)
_values = methodcaller("values")


class Seen:
    """The present references of some objects, for finding changes later."""

    def __init__(self, objects: Objects, numbers: Iterable[int]) -> None:
        self._objects = objects
        found = list(numbers)
        live = objects.live
        instances = [k for k in found if objects.has_attributes_alone(k)]
        dicts = [k for k in found if type(live[k]) in _DICTS]
        lists = [k for k in found if type(live[k]) is list]
        self._others = [k for k in found if k not in {*instances, *dicts, *lists}]
        self._instances = [live[k] for k in instances]
        self._dicts, self._lists = [live[k] for k in dicts], [live[k] for k in lists]
        self._numbers = np.array([*instances, *dicts, *lists, *self._others], np.intp)
        self._see(*self._read())

    def _read(self) -> tuple[list[int], tuple[Any, ...]]:
        """Return how many places each object has, and all keys of them, then what they hold."""
        mappings = [*map(vars, self._instances), *self._dicts]
        others = [list(self._objects.places(number).values()) for number in self._others]
        rows = [*map(_values, mappings), *self._lists, *others]
        return list(map(len, rows)), tuple(chain(*mappings, *rows))

    def _see(self, counts: list[int], held: tuple[Any, ...]) -> None:
        self._counts, self._held, self._ids = counts, held, _identities(held)

    def changed(self) -> list[int] | None:
        """Read the references again; return the numbers of objects with changed ones.

        It is None, and nothing is recorded, if an object with parts was added or removed.
        """
        counts, held = self._read()
        if counts != self._counts:
            return None
        ids = _identities(held)
        if ids == self._ids:
            return []
        where = np.flatnonzero(np.frombuffer(ids, np.intp) != np.frombuffer(self._ids, np.intp))
        first = len(held) - sum(counts)
        if where[0] < first or not all(
            has_no_parts(self._held[k]) and has_no_parts(held[k]) for k in where
        ):
            return None
        self._see(counts, held)
        rows = np.searchsorted(np.cumsum(counts), where - first, side="right")
        found: list[int] = np.unique(self._numbers[rows]).tolist()
        return found


def _identities(held: tuple[Any, ...]) -> bytes:
    """Return the `id` of each item, eight bytes each: they lie so in a tuple of CPython."""
    # To compare item by item with `is` takes some fifty times as long.
    return ctypes.string_at(id(held) + tuple.__basicsize__, 8 * len(held))

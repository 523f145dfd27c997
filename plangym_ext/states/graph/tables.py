"""GraphTables: the first block of a graph, with its texts, classes, references and array types."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from plangym_ext.states import plain
from plangym_ext.states.graph.array_views import dtype_text, is_record
from plangym_ext.states.graph.classes import Shape, finaliser_of, imported, name_of
from plangym_ext.states.plain import NotPlain

_OBJECTS = np.dtype(object)
#: Tables that are remembered: those of one env are mostly the same.
_MOST_TABLES = 256
_tables: dict[Any, bytes] = {}


class GraphTables:
    """Numbers the names in a graph, in the order of their first use.

    Args:
        known: classes and functions by `name_of`; others must be importable.
        learns: whether others are added to `known` instead.

    Attributes:
        table: the first block of the graph that was written last.
    """

    def __init__(self, known: dict[tuple[str, str], Any], *, learns: bool) -> None:
        self._known, self._learns = known, learns
        self._roots: list[Any] = []
        self._names: list[list[str]] = []
        self.table = b""

    def _begin_tables(self) -> None:
        self._texts: dict[str, int] = {}
        self._classes: dict[Shape, int] = {}
        self._references: dict[Any, int] = {}
        self._specs: dict[Any, int] = {}

    @property
    def shapes(self) -> Iterable[Shape]:
        """The classes whose instances the graph holds, with their attributes."""
        return self._classes

    @property
    def references(self) -> Iterable[Any]:
        """Other objects that the graph refers to: classes, enumerations and functions."""
        return self._references

    def put(self, value: Any) -> None:
        """Append a value."""
        self._roots.append(value)

    def put_all(self, layers: Iterable[Mapping[str, Any]]) -> None:
        """Append the attributes of layers, by their names; nothing else is in the graph then."""
        for attributes in layers:
            self._names.append(list(attributes))
            self._roots += attributes.values()

    def _table(self) -> bytes:
        key = (
            tuple(self._texts),
            tuple(self._classes),
            tuple(self._references),
            tuple(self._specs),
            tuple(map(tuple, self._names)) or len(self._roots),
        )
        found = _tables.get(key)
        if found is None:
            table = (
                list(self._texts),
                [[*name_of(cls), *names] for cls, names in self._classes],
                [name_of(thing) for thing in self._references],
                [[dtype_text(dtype), *rest] for dtype, *rest in self._specs],
                self._names or len(self._roots),
            )
            if len(_tables) >= _MOST_TABLES:
                _tables.clear()
            found = _tables[key] = json.dumps(table).encode()
        return found

    def _shape(self, shape: Shape) -> int:
        found = self._classes.get(shape)
        if found is None:
            kind = shape[0]
            if finaliser_of(kind):
                raise NotPlain(f"a {kind.__module__}.{kind.__qualname__}, which has a __del__")
            self._check(kind)
            found = self._classes[shape] = len(self._classes)
        return found

    def _spec(self, spec: Any) -> int:
        found = self._specs.get(spec)
        if found is None:
            dtype = spec[0]
            if not (plain.is_plain(dtype) or is_record(dtype) or dtype == _OBJECTS):
                raise NotPlain(f"an array of {dtype}")
            found = self._specs[spec] = len(self._specs)
        return found

    def _text(self, value: str) -> int:
        return self._texts.setdefault(value, len(self._texts))

    def _reference(self, thing: Any) -> int:
        if thing not in self._references:
            self._check(thing)
            self._references[thing] = len(self._references)
        return self._references[thing]

    def _check(self, thing: Any) -> None:
        """Make sure that a reader will find the thing by its name."""
        name = name_of(thing)
        found = self._known.get(name)
        if found is None and self._learns:
            found = self._known[name] = thing
        if found is None:
            with contextlib.suppress(ImportError, AttributeError, ValueError):
                found = imported(*name)
        if found is not thing:
            raise NotPlain(f"{thing!r}, which is not what is found as {'.'.join(name)}")

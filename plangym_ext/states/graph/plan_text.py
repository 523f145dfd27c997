"""PlanText: source text under construction for `plan_source`."""

from __future__ import annotations

import array
import itertools
import struct
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from plangym_ext.states import plain
from plangym_ext.states.graph import filling
from plangym_ext.states.graph.array_views import owner_of, place_of, view_at
from plangym_ext.states.graph.classes import sorted_elements
from plangym_ext.states.graph.kinds import Kind
from plangym_ext.states.randomness.random_bytes import (
    RANDOM_TYPES,
    bits_of,
    generator_of,
    random_bytes,
)

SIZES = struct.Struct("<5I")
SCALARS = {np.dtype(letter).type for letter in "?bBhHiIlLqQefdFD"}
#: Those that Python's own numbers tell exactly, by the letter of `struct`.
UNPACKED = {np.dtype(letter).type: letter for letter in "bBhHiIqQd"}
UNPACKED |= {np.int64: "q", np.uint64: "Q"}
HASHED_IN_C = {Kind.TEXT, Kind.INT, Kind.FLOAT, Kind.BOOL, Kind.NONE, Kind.BYTES, Kind.ENUM}
HASHED_IN_C |= {Kind.INT_TUPLE, Kind.FLOAT_TUPLE}
CODES = {int: "q", float: "d"}


def _array_from(data: bytes, dtype: np.dtype[Any], shape: Any, order: Any) -> np.ndarray:
    # Copied: the bytes of the graph cannot be written to.
    return plain.array_of(data, dtype).reshape(shape, order=order).copy(order)


def _rows_of(numbers: list[Any], count: int, length: int) -> list[Any]:
    if count < 1 or len(numbers) != count * length:
        raise ValueError(f"{count} rows of {length} numbers")
    # Of one iterator that many times: so many numbers at a time.
    return list(zip(*[iter(numbers)] * length, strict=True))


_GLOBALS: dict[str, Any] = {
    "array": array.array,
    "array_from": _array_from,
    "chain": itertools.chain.from_iterable,
    "deque": deque,
    "generator_of": generator_of,
    "made": filling.made_of_parts,
    "new": object.__new__,
    "MethodType": types.MethodType,
    "NOWHERE": (-1, ""),
    "OrderedDict": OrderedDict,
    "RANDOM": RANDOM_TYPES,
    "owner_of": owner_of,
    "bits_of": bits_of,
    "random_bytes": random_bytes,
    "rows_of": _rows_of,
    "scalar_from": lambda data, dtype: plain.array_of(data, dtype)[0],
    "sorted_elements": sorted_elements,
    "place_of": place_of,
    "values": dict.values,
    "view_at": view_at,
}


class NoPlan(Exception):
    """A graph holds values that only `writer` and `reader` support."""


class PlanText:
    """The lines of both functions.

    Args:
        ints: whole numbers of a graph of the structure.

    Attributes:
        writing: lines that compare a graph with the structure.
        reading: lines that take numbers from the bytes.
        made: lines that make what is read.
        fills: lines that give it what it holds.
        marks: numbered objects, by their names in the writing function.
        generators: numpy generators likewise.
        seen: numbered objects, by what writing and reading call them.
    """

    def __init__(self, ints: list[int]) -> None:
        self._values, self._constants = ints, dict(_GLOBALS)
        self.writing: list[str] = []
        self.made: list[str] = []
        self.fills: list[str] = []
        self.marks: list[str] = []
        self.generators: list[str] = []
        self.seen: list[tuple[str, str]] = []
        self.reading: list[str] = []
        self._ints: list[str] = []
        self._floats: list[str] = []
        self._blobs: list[str] = []
        self._guards: list[tuple[str, int]] = []
        self._unpacked: list[str] = []
        self._format, self.dynamic = "", False
        self._num_ints = self._num_floats = 0

    def constant(self, value: Any) -> str:
        """Return the name of a value in the text."""
        name = f"K{len(self._constants)}"
        self._constants[name] = value
        return name

    def structural(self, count: int = 1) -> list[int]:
        """Make the next integers a part of the structure."""
        first = self._num_ints
        found = self._values[first : first + count]
        self._ints += map(str, found)
        self._guards += [(f"i{first + k}", value) for k, value in enumerate(found)]
        self._num_ints += count
        return found

    def int_names(self, count: int, source: str) -> list[str]:
        """Take the next integers as values; return their names in the reading function."""
        first = self._num_ints
        self._ints.append(source)
        self._num_ints += count
        return [f"i{k}" for k in range(first, first + count)]

    def float_names(self, count: int, source: str) -> list[str]:
        """Take the next floats as values; return their names in the reading function."""
        first = self._num_floats
        self._floats.append(source)
        self._num_floats += count
        return [f"f{k}" for k in range(first, first + count)]

    def blob(self, source: str, size: int, letter: str = "") -> str:
        """Take the next `size` bytes; return their name in the reading function."""
        self._blobs.append(source)
        name = f"x{len(self._blobs)}"
        if self.dynamic:
            self.reading.append(f"{name} = data[at : at + {size}]")
            self.reading.append(f"at += {size}")
        else:
            self._format += letter or f"{size}s"
            self._unpacked.append(name)
        return name

    def run(self, source: str, kind: type, count: str) -> str:
        """Take the next numbers from the bytes; `count` is their number in the reading function."""
        code = CODES[kind]
        self._blobs.append(f"array({code!r}, {source}).tobytes()")
        name = f"x{len(self._blobs)}"
        self.dynamic = True
        self.reading += [
            f"if {count} < 0: raise ValueError('a list of less than nothing')",
            f"{name} = array({code!r}, data[at : at + 8 * {count}]).tolist()",
            f"at += 8 * {count}",
        ]
        return name

    def unless(self, condition: str) -> None:
        """Abort the writing function under a condition."""
        self.writing.append(f"if {condition}: return None")

    def number(self, source: str, name: str) -> None:
        """Give an object the next number, by its names in the writing and the reading function."""
        self.seen.append((source, name))
        self.marks.append(source)

    def writer(self, head: bytes, first: tuple[int, int]) -> Callable[..., Any]:
        """Return a function that writes a graph of the structure, or returns None.

        It takes the roots, the named objects by `id`, and the objects of other layers.
        """
        pack = struct.Struct(f"<{self._num_ints}q{self._num_floats}d").pack
        sizes_of = f"{first[0]}, {first[1]}, {8 * self._num_ints}, {8 * self._num_floats}"
        lines = [
            "owners = []",
            *self.writing,
            f"marks = ({items(self.marks)})",
            "keys = {*map(id, marks)}",
            "if len(keys) != len(marks) or not keys.isdisjoint(named): return None",
            "if not keys.isdisjoint(shared): return None",
            "if owners and not (len({*owners}) == len(owners) and keys.isdisjoint(owners)"
            " and shared.keys().isdisjoint(owners)): return None",
            f"if len({{*map(bits_of, ({items(self.generators)}))}}) != {len(self.generators)}:"
            " return None",
            f"blobs = b''.join(({items(self._blobs)}))",
            f"numbers = {self.constant(pack)}({', '.join((*self._ints, *self._floats))})",
            f"return b''.join(({self.constant(SIZES.pack)}({sizes_of}, len(blobs)), "
            f"{self.constant(head)}, numbers, blobs))",
        ]
        return self._compiled("L0, named, shared", lines)

    def reader(self, names_of_layers: list[list[str]], roots: list[str]) -> Callable[..., Any]:
        """Return a function that reads a graph of the structure, or returns None.

        It takes bytes, where in them the numbers begin, and what finds named objects. It returns
        the attributes of all layers, and generators with the states to set them to.
        """
        values = struct.Struct(f"<{self._num_ints}q{self._num_floats}d{self._format}")
        names = [f"i{k}" for k in range(self._num_ints)]
        names += [f"f{k}" for k in range(self._num_floats)]
        unpacked = items([*names, *self._unpacked])
        guarded = items([name for name, _ in self._guards])
        wanted = self.constant(tuple(value for _, value in self._guards))
        left = iter(roots)
        layers = [
            ", ".join(f"{str.__repr__(name)}: {next(left)}" for name in row)
            for row in names_of_layers
        ]
        lines = [
            # Bytes of another length make another structure: the numbers tell, if there is room.
            f"if len(data) < at + {values.size}: return None",
            f"({unpacked}) = {self.constant(values.unpack_from)}(data, at)",
            f"if ({guarded}) != {wanted}: return None",
            f"at += {values.size}",
            *self.reading,
            "if at != len(data): raise ValueError('it ends too early, or more follows')",
            "generators = []",
            *self.made,
            *self.fills,
            f"return [{items([f'{{{row}}}' for row in layers])}], generators",
        ]
        return self._compiled("data, at, find", lines)

    def _compiled(self, arguments: str, lines: list[str]) -> Callable[..., Any]:
        text = "\n    ".join([f"def plan({arguments}):", *lines])
        made = dict(self._constants)
        exec(compile(text, "<plan>", "exec"), made)
        found: Callable[..., Any] = made["plan"]
        return found


def items(sources: Iterable[str]) -> str:
    """Return the text between the brackets of a tuple or list."""
    return "".join(f"{source}, " for source in sources)


def pairs(keys: Iterable[str], values: Iterable[str]) -> str:
    """Return the text of a dict."""
    return "{" + ", ".join(map(": ".join, zip(keys, values, strict=True))) + "}"

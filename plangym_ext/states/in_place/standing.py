"""Placeholders for references in in-place states, and bitwise equality of atoms."""

from __future__ import annotations

import hashlib
import os
import pathlib
import types
from dataclasses import dataclass
from typing import Any

import numpy as np

from plangym_ext.states.graph.writer import name_of
from plangym_ext.states.in_place.kinds import is_atom


@dataclass(frozen=True, slots=True)
class Ref:
    """Placeholder for a numbered object."""

    number: int


@dataclass(frozen=True, slots=True)
class Group:
    """Placeholder for a tuple that holds objects."""

    kind: Any
    items: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """Placeholder for a bound method and its owner."""

    function: Any
    owner: Any


def same_atom(one: Any, two: Any) -> bool:
    """Return whether two values without parts are the same to the bit."""
    if one is two:
        return True
    if type(one) is not type(two):
        return False
    if isinstance(one, int | str | bytes):
        return bool(one == two)
    if type(one) is float and one and one == two:  # of zeros and of no numbers the text decides
        return True
    if isinstance(one, np.generic):
        return one.dtype == two.dtype and one.tobytes() == two.tobytes()
    return repr(one) == repr(two)


def is_flat(value: Any) -> bool:
    """Return whether a tuple or frozenset holds atoms, and other such tuples, alone."""
    return all(
        is_atom(type(item)) or (type(item) in (tuple, frozenset) and is_flat(item))
        for item in value
    )


def hashed(*what: Any) -> int:
    """Return 64 bits of the text of some atoms."""
    data = repr(what).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def text_of(value: Any) -> Any:
    """Return an identifying text of a value without parts, equal in every process."""
    kind: Any = type(value)
    if isinstance(value, type | types.BuiltinFunctionType | types.ModuleType):
        return getattr(value, "__module__", ""), getattr(value, "__qualname__", value.__name__)
    if isinstance(value, np.generic):
        return value.dtype.str, value.tobytes()
    if isinstance(value, frozenset):
        return sorted(map(repr, map(text_of, value)))
    if isinstance(value, tuple):
        return list(map(text_of, value))
    # Where a file lies is each machine's own; what was read of it is elsewhere.
    if isinstance(value, pathlib.PurePath) or (kind is str and os.path.isabs(value)):
        return "path"
    if isinstance(value, property | types.MappingProxyType) or " at 0x" in repr(value):
        return name_of(kind)
    return name_of(kind), repr(value)

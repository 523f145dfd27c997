"""Attribute names forbidden in restored data, such as `__array_interface__`.

Libraries ask any object for attributes of certain names and believe what they find: numpy
takes `__array_interface__` of an instance for an address, ctypes `_as_parameter_`. And what
an instance has under the name of a method is called in the method's place. So there is
one question for all places where data is written into objects: `misplaced`.
"""

from __future__ import annotations

import functools
import types
from typing import Any

#: Beside all `__x__`: what ctypes, SWIG (in C, again and again if it refers to itself) and numba
#: look up on instances.
_NAMES = frozenset({"_as_parameter_", "this", "_numba_type_"})

_MARKS = (b'"__', *(f'"{name}"'.encode() for name in sorted(_NAMES)))


def is_protocol(name: str) -> bool:
    """Return whether libraries may look up a name on any object."""
    return (name[:2] == "__" and name[-2:] == "__") or name in _NAMES


def are_written(table: bytes) -> bool:
    """Return whether the table of a graph written here may hold such a name."""
    # A text may be no name at all, which costs a digest.
    return any(mark in table for mark in _MARKS)


@functools.lru_cache(4096)
def misplaced(cls: Any, attributes: tuple[str, ...]) -> str:
    """Return which of the names no instance of a class may hold data under, and why.

    Returns:
        "name, reason" of the first one; "" if there is none.
    """
    for name in attributes:
        above = next((above for above in cls.__mro__ if name in vars(above)), None)
        # An attribute of an instance is found before its class's method, and would be called.
        if above is not None and _acts(vars(above)[name]):
            return f"{name}, in the place of a method"
        if is_protocol(name):
            return f"{name}, a name that libraries look up on any object"
    return ""


def _acts(value: Any) -> bool:
    """Return whether something that a class holds is called, or decides what its name means."""
    # A cached property keeps what it has found under its own name, in the instance.
    # Data for a slot goes through its descriptor, which is C.
    if isinstance(value, functools.cached_property | types.MemberDescriptorType):
        return False
    return callable(value) or hasattr(type(value), "__get__") or hasattr(type(value), "__set__")

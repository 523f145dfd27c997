"""Whether an attribute still holds the function or class that it held at first."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

_VALUES = (bool, int, float, complex, str, bytes, type(None))


def is_same(one: Any, two: Any) -> bool:
    """Return whether two functions or classes are one, or were made by one line of equal values.

    A reset may make a function anew each time, which then does what the one before it did.
    """
    if one is two:
        return True
    # A builtin function and a class are each their own.
    if not (type(one) is type(two) is types.FunctionType) or one.__code__ != two.__code__:
        return False
    held, others = list(_held(one)), list(_held(two))
    return len(held) == len(others) and all(
        # A function may refer to itself.
        _is_equal(value, other) or (value is one and other is two)
        for value, other in zip(held, others, strict=True)
    )


def _held(function: types.FunctionType) -> Iterator[Any]:
    """Yield what a function was made with: defaults, and variables from around it."""
    yield function.__defaults__
    yield tuple((function.__kwdefaults__ or {}).items())
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not set yet
            yield None


def _is_equal(one: Any, two: Any) -> bool:
    # Only what cannot change: two equal lists may differ later.
    if one is two:
        return True
    if type(one) is not type(two):
        return False
    if type(one) is tuple:
        return len(one) == len(two) and all(map(_is_equal, one, two))
    return type(one) in _VALUES and bool(one == two)

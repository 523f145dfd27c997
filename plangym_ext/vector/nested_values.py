"""Check that a value is nested as its Dict or Tuple space says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gymnasium import spaces


def is_nested(
    space: spaces.Space[Any], value: Any, is_leaf: Callable[[spaces.Space[Any], Any], bool]
) -> bool:
    """Return whether a value has exactly the nesting of a space.

    Args:
        space: nested or not.
        value: an element of it, or something else.
        is_leaf: whether a value is one of a space that is not nested.
    """
    if isinstance(space, spaces.Dict):
        known = type(value) is dict and list(value) == list(space)
        return known and all(is_nested(sub, value[key], is_leaf) for key, sub in space.items())
    if isinstance(space, spaces.Tuple):
        known = type(value) is tuple and len(value) == len(space)
        pairs = zip(space, value, strict=True) if known else ()
        return known and all(is_nested(sub, part, is_leaf) for sub, part in pairs)
    return is_leaf(space, value)

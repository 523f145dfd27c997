"""Type checks of configuration fields by their annotations. Imports no torch."""

from __future__ import annotations

import dataclasses
import functools
import numbers
import types
import typing
from collections.abc import Sequence
from typing import Any

import numpy as np

from plangym_ext.errors import InvalidOption


def take_kinds(config: Any) -> None:
    """Check what kinds of values the fields of a dataclass have; call it in `__post_init__`.

    NumPy's numbers become Python's, and sequences tuples, so that equal settings are equal and
    are saved alike. Bounds are for the class to check; annotations of other kinds than plain
    values, tuples of them, and unions with them are not looked at.

    Args:
        config: a dataclass, which may be frozen.

    Raises:
        InvalidOption: a value is of another kind.
    """
    cls: Any = type(config)
    for name, kind in _kinds(cls).items():
        value = getattr(config, name)
        taken = _taken(kind, value, f"{cls.__name__}: {name}")
        if taken is not value:
            object.__setattr__(config, name, taken)


@functools.cache
def _kinds(cls: type) -> dict[str, Any]:
    try:
        hints = typing.get_type_hints(cls)
    except NameError:  # of a class in a function, whose annotations cannot be looked up
        return {}
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def _taken(kind: Any, value: Any, where: str) -> Any:
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        # Of None, and of what stands for a number, such as a schedule.
        others = tuple(one for one in args if isinstance(one, type) and one not in _PLAIN)
        return value if isinstance(value, others) else _taken(args[0], value, where)
    if origin is tuple:
        return _tuple(args[0], value, where)
    if kind not in _PLAIN:
        return value
    accepted, called, plain = _PLAIN[kind]
    if not isinstance(value, accepted) or (kind is not bool and isinstance(value, bool)):
        raise InvalidOption(f"{where} must be {called}; got {value!r}.")
    # Whole numbers stay whole where any number will do.
    return value if type(value) in (kind, int) else plain(value)


def _tuple(kind: Any, value: Any, where: str) -> tuple[Any, ...]:
    # A text is a sequence of its letters, and a mistake here.
    if isinstance(value, str) or not isinstance(value, Sequence | np.ndarray):
        raise InvalidOption(
            f"{where} must be a tuple, each {_PLAIN[kind][1]}; got {value!r}. Write ({value!r},)."
        )
    taken = tuple(_taken(kind, one, where) for one in value)
    return value if isinstance(value, tuple) and taken == value else taken


#: By the kind of a field: what is accepted, what messages call it, and what makes it plain.
_PLAIN: dict[Any, tuple[Any, str, Any]] = {
    bool: ((bool, np.bool_), "True or False", bool),
    int: (numbers.Integral, "an integer", int),
    float: (numbers.Real, "a finite number", float),
    str: (str, "a text", str),
}

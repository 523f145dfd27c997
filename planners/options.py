"""Planner options read from a class: names, defaults, documentation.

What is written under `Args` in the docstrings is what the command line shows, so
that it is written once.
"""

from __future__ import annotations

import inspect
import typing
from typing import Any, NamedTuple

from plangym_ext.core.inherited_options import described, parameters_of
from plangym_ext.planners.base import Planner

_KINDS: dict[str, type] = {"int": int, "float": float, "bool": bool, "str": str}


class Option(NamedTuple):
    """One constructor option of a planner: name, default, documentation.

    Attributes:
        name: the keyword of the constructor.
        kind: `int`, `float`, `bool` or `str`; None if it cannot be typed in, such
            as a function. `str` if it is a function or the name of one.
        optional: whether None is a value too.
        default: what holds if it is not given; `inspect.Parameter.empty` if it must be.
        help: what it means, in one line.
    """

    name: str
    kind: type | None
    optional: bool
    default: Any
    help: str


def options_of(planner: type[Planner]) -> list[Option]:
    """List the options of a planner, its own before the common ones.

    Args:
        planner: its class: a dataclass, or one whose constructor takes keywords.
    """
    helps = described(planner)
    shared = parameters_of(Planner)
    # The sort is stable: within both groups the options keep their order.
    found = sorted(parameters_of(planner).values(), key=lambda one: one.name in shared)
    return [_option(one, helps.get(one.name, "")) for one in found]


def _option(parameter: inspect.Parameter, text: str) -> Option:
    parts = _kind_names(parameter.annotation)
    kinds = [_KINDS[part] for part in parts if part in _KINDS]
    # Of two kinds a text on the command line would not say which is meant.
    kind = kinds[0] if len(kinds) == 1 else None
    return Option(parameter.name, kind, "None" in parts, parameter.default, text)


def _kind_names(annotation: Any) -> list[str]:
    """Return the names of the kinds that an annotation allows."""
    # A string, where a module imports `annotations` from `__future__`; ours do.
    if isinstance(annotation, str):
        return annotation.split(" | ")
    kinds = typing.get_args(annotation) or (annotation,)
    return [
        "None" if kind in (None, type(None)) else getattr(kind, "__name__", "") for kind in kinds
    ]

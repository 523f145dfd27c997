"""Planner options read from a class: names, defaults, documentation.

What is written under `Args` in the docstrings is what the command line shows, so
that it is written once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from plangym_ext.core.inherited_options import described, parameters_of
from plangym_ext.core.options import declarations, declared_by
from plangym_ext.planners.base import Planner


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
    helps, declared = described(planner), declarations(planner)
    shared = parameters_of(Planner)
    # The sort is stable: within both groups the options keep their order.
    parameters = sorted(parameters_of(planner).values(), key=lambda one: one.name in shared)
    found = []
    for name, default, annotation in ((p.name, p.default, p.annotation) for p in parameters):
        takes = declared.get(name) or declared_by(annotation, planner.__module__)
        kinds = [kind for kind in takes.kinds if kind in (int, float, bool, str)]
        # Of two types a text on the command line would not say which is meant.
        kind = kinds[0] if len(kinds) == 1 else None
        found.append(Option(name, kind, takes.optional, default, helps.get(name, "")))
    return found

"""The options of a planner, read off its class: names, defaults, and what they mean.

What is written under `Args` in the docstrings is what the command line shows, so
that it is written once.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any, NamedTuple

from plangym_ext.planners.base import Planner

_KINDS: dict[str, type] = {"int": int, "float": float, "bool": bool, "str": str}
# "name: text", indented as Google's style has it; deeper lines continue the text.
_ENTRY = re.compile(r"^    (\w+): (.*)$")


class Option(NamedTuple):
    """One option of a planner.

    Attributes:
        name: the keyword of the constructor.
        kind: `int`, `float`, `bool` or `str`; None if it cannot be typed in, such
            as a function. `str` if it is a function or the name of one.
        optional: whether None is a value too.
        default: what holds if it is not given.
        help: what it means, in one line.
    """

    name: str
    kind: type | None
    optional: bool
    default: Any
    help: str


def options_of(planner: type[Planner]) -> list[Option]:
    """List the options of a planner, its own before those that all have.

    Args:
        planner: its class.
    """
    helps: dict[str, str] = {}
    # The most derived class comes first: what it says of an option wins over its bases.
    for cls in planner.__mro__:
        for name, text in described(cls).items():
            helps.setdefault(name, text)
    fields = [field for field in dataclasses.fields(planner) if field.init]
    shared = {field.name for field in dataclasses.fields(Planner)}
    # The sort is stable: within both groups the fields keep their order.
    fields.sort(key=lambda field: field.name in shared)
    return [_option(field, helps.get(field.name, "")) for field in fields]


def _option(field: dataclasses.Field[Any], text: str) -> Option:
    # Annotations are strings, as modules of planners import `annotations` from `__future__`.
    parts = str(field.type).split(" | ")
    kinds = [_KINDS[part] for part in parts if part in _KINDS]
    # Of two kinds a text on the command line would not say which is meant.
    kind = kinds[0] if len(kinds) == 1 else None
    return Option(field.name, kind, "None" in parts, field.default, text)


def described(cls: type) -> dict[str, str]:
    """Read the entries under `Args:` of a class's own docstring."""
    lines = inspect.cleandoc(cls.__dict__.get("__doc__") or "").splitlines()
    if "Args:" not in lines:
        return {}
    found: dict[str, str] = {}
    name = ""
    for line in lines[lines.index("Args:") + 1 :]:
        entry = _ENTRY.match(line)
        if entry:
            name = entry[1]
            found[name] = entry[2]
        elif line.startswith("        ") and name:
            found[name] += " " + line.strip()
        else:
            break
    return found

"""Lazy loading of a package's public names, as listed in its stub file.

The stub, `__init__.pyi`, is all that type checkers read of such a package: what they are told and
what is loaded cannot differ.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any


def names_of(file: str) -> dict[str, str]:
    """Return name -> module that defines it, of the imports in the stub of a package."""
    with open(f"{file.rpartition('.')[0]}.pyi", encoding="utf-8") as stub:
        _, *imports = f"\n{stub.read()}".split("\nfrom ")
    found = {}
    # By hand: `ast` takes longer to import than all of this package.
    for statement in imports:
        module, _, names = statement.partition(" import ")
        for name in names.translate({ord("("): "", ord(")"): ""}).split(","):
            if name.strip():
                found[name.split()[-1]] = module
    return found


def lazy_names(
    package: str, file: str
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` of a package (PEP 562)."""
    homes = names_of(file)

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return [*homes], load, lambda: sorted({*vars(sys.modules[package]), *homes})

"""The planners by name, so that they can be listed without being loaded."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, NamedTuple

from plangym_ext.errors import UnknownName, suggestion

if TYPE_CHECKING:
    from plangym_ext.planners.base import Planner


class Entry(NamedTuple):
    """Where a planner lives and what it is."""

    target: str  # "module:Class"
    help: str  # one line


PLANNERS: dict[str, Entry] = {
    "mcts": Entry(
        "plangym_ext.planners.mcts:MCTS",
        "Monte Carlo tree search (PUCT), discrete actions, random rollouts or an evaluator",
    ),
}


def unknown(where: str, name: object, known: list[str]) -> UnknownName:
    """Return the error for a name that is not in `known`, with a close match if any."""
    close = suggestion(str(name), known)
    return UnknownName(f"{where} must be one of {', '.join(known)}; got {name!r}{close}")


def load_planner(name: str) -> type[Planner]:
    """Return the class of a planner; this is when numba is imported.

    Raises:
        UnknownName: no planner has this name.
    """
    if name not in PLANNERS:
        raise unknown("planner", name, sorted(PLANNERS))
    module, _, attribute = PLANNERS[name].target.partition(":")
    cls: Any = getattr(importlib.import_module(module), attribute)
    return cls

"""All kinds: places times moments, from a seed."""

from __future__ import annotations

import functools
import itertools
import random
from typing import Any

from hidden_kinds import in_attributes, in_objects, in_odd_places, in_process
from hidden_kinds.base import EARLY, WHENS, Hidden

#: Places that have no number of their own to turn, or are the parts of others.
_NO_PLACES = {"Hidden", "Cells", "InModule", "Inner"}


def places() -> dict[str, Any]:
    """Return every place by name: a class of envs, or the name of a wrapper."""
    found: dict[str, Any] = {}
    for module in (in_attributes, in_objects, in_process, in_odd_places):
        for name, value in vars(module).items():
            if isinstance(value, type) and issubclass(value, Hidden) and name not in _NO_PLACES:
                found[name] = value
    return found | dict(in_process.WRAPPERS)


def kinds(seed: int = 0) -> dict[str, Any]:
    """Return a constructor of each kind by name: every place twice, at moments that differ.

    Args:
        seed: of which moments go with which places.
    """
    rng = random.Random(seed)
    late = [when for when in WHENS if when != "always"]
    rng.shuffle(late)
    moments = itertools.cycle(late)
    found: dict[str, Any] = {}
    for name in places():
        wrapped = name in in_process.WRAPPERS
        second = next(moments)
        if wrapped:
            second = rng.choice(("step 20", "step 200", "step 2,000"))
        for when in ("always", second):
            found[f"{name}, {when}"] = made(name, when)
    return found


def made(name: str, when: str) -> Any:
    """Return the constructor of a kind."""
    if name in in_process.WRAPPERS:
        return functools.partial(in_process.wrapped, name, when)
    return functools.partial(places()[name], when)


def named(kind: str) -> str:
    """Return what a refusal of a kind has to name."""
    return str(getattr(places()[kind.partition(",")[0]], "named", ""))


def is_early(kind: str) -> bool:
    """Return whether a kind shows within the steps of a proof."""
    return kind.partition(", ")[2] in EARLY

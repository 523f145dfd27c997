"""Usable processors of this process, and detection of forks in the child.

A forked child has a copy of every object but of no thread, and the other ends of pipes and
sockets still belong to its parent. What does not survive a fork is let go there. `subprocess`
is no such fork.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import Any

_count = 0
_handlers: list[Callable[[], None]] = []


def usable_processors() -> int:
    """Return how many processors this process may run on: those of its affinity."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def fork_count() -> int:
    """Return how many forks lie between the first process and this one; it never falls."""
    return _count


def in_child(handler: Callable[[], None]) -> None:
    """Register a function to call in every forked child, before anything else runs there."""
    _handlers.append(handler)


def each_in_child(let_go: Callable[[Any], None]) -> weakref.WeakSet[Any]:
    """Return a weak set of objects, for each of which a function is called in a forked child."""
    members: weakref.WeakSet[Any] = weakref.WeakSet()

    def handler() -> None:
        for member in list(members):
            let_go(member)

    in_child(handler)
    return members


def _forked() -> None:
    global _count
    _count += 1
    for handler in _handlers:
        handler()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)

"""Tracking and undoing of changes to an env's plain attributes in method calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_KINDS = (bool, int, float, str)


def plain_attributes(env: Any) -> dict[str, Any]:
    """Return plain attributes of the unwrapped env by name, without private ones."""
    found = vars(env.unwrapped).items()
    return {n: v for n, v in found if type(v) in _KINDS and not n.startswith("_")}


def changed_attributes(env: Any, before: dict[str, Any]) -> dict[str, Any]:
    """Return the plain attributes of an env that differ from `before`."""
    missing = object()
    now = {
        name: (before.get(name, missing), value) for name, value in plain_attributes(env).items()
    }
    # By identity first: NaN is not equal to itself.
    return {name: value for name, (was, value) in now.items() if was is not value and was != value}


def set_back(env: Any, before: dict[str, Any]) -> None:
    """Set the plain attributes of an env back to `before`."""
    held = vars(env.unwrapped)
    for name in changed_attributes(env, before):
        if name in before:
            held[name] = before[name]
        else:
            del held[name]
    # Those that are gone, or no plain ones any more.
    held.update(before)


class PlainChanges:
    """Changes of plain attributes by method calls on some rows' envs, to be undone.

    Args:
        envs: of all rows.

    Attributes:
        made: what they have set, by row and name.
    """

    def __init__(self, envs: Sequence[Any]) -> None:
        self._envs = envs
        self._before: dict[int, dict[str, Any]] = {}
        self.made: dict[tuple[int, str], Any] = {}

    @property
    def rows(self) -> tuple[int, ...]:
        """Rows of whose envs a method was called."""
        return tuple(self._before)

    def watch(self, row: int) -> None:
        """Note that a method of a row's env is about to be called."""
        self._before[row] = plain_attributes(self._envs[row])

    def note(self, row: int) -> bool:
        """Record the method's changes; return whether there are any."""
        found = changed_attributes(self._envs[row], self._before[row])
        self.made |= {(row, name): value for name, value in found.items()}
        return bool(found)

    def undo(self) -> None:
        """Set all of it back."""
        for row, held in self._before.items():
            set_back(self._envs[row], held)

"""The numbers and texts that an env holds as attributes, such as the gravity of a simulator."""

from __future__ import annotations

from typing import Any

_KINDS = (bool, int, float, str)


def plain_attributes(env: Any) -> dict[str, Any]:
    """Return those of the env under all wrappers, by name; what begins with "_" is its own."""
    found = vars(env.unwrapped).items()
    return {n: v for n, v in found if type(v) in _KINDS and not n.startswith("_")}


def changed_attributes(env: Any, before: dict[str, Any]) -> dict[str, Any]:
    """Return what `plain_attributes` gives of an env now and was not so `before`."""
    missing = object()
    now = {
        name: (before.get(name, missing), value) for name, value in plain_attributes(env).items()
    }
    # By identity first: NaN is not equal to itself.
    return {name: value for name, (was, value) in now.items() if was is not value and was != value}


def set_back(env: Any, before: dict[str, Any]) -> None:
    """Make what `plain_attributes` gives of an env what it was `before`."""
    held = vars(env.unwrapped)
    for name in changed_attributes(env, before):
        if name in before:
            held[name] = before[name]
        else:
            del held[name]
    # Those that are gone, or no plain ones any more.
    held.update(before)

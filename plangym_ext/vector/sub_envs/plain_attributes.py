"""The numbers and texts that an env holds as attributes, such as the gravity of a simulator."""

from __future__ import annotations

from typing import Any

_KINDS = (bool, int, float, str)


def plain_attributes(env: Any) -> dict[str, Any]:
    """Return those of the env under all wrappers, by name; what begins with "_" is its own."""
    found = vars(env.unwrapped).items()
    return {n: v for n, v in found if type(v) in _KINDS and not n.startswith("_")}

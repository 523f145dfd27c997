"""Replay capacity in steps or in bytes."""

from __future__ import annotations

import re
from typing import Any

from plangym_ext.core.numbers import at_least
from plangym_ext.errors import InvalidOption

#: Steps of all envs, or a text such as "2GB".
Capacity = int | str

_UNITS = {
    "": 1,
    "K": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "KI": 2**10,
    "MI": 2**20,
    "GI": 2**30,
    "TI": 2**40,
}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]I?)?B\s*", re.IGNORECASE)


def checked_capacity(where: str, capacity: Any) -> Capacity:
    """Return the capacity as it is.

    Args:
        where: begins the message.
        capacity: steps, at least 1; or bytes with a unit: "500MB", "2GB", "1.5GiB".

    Raises:
        InvalidOption: it is neither.
    """
    if isinstance(capacity, float) and capacity.is_integer():
        capacity = int(capacity)  # 1e6 is a float to Python
    if not isinstance(capacity, str):
        return at_least(where, capacity, 1)
    if not _SIZE.fullmatch(capacity):
        raise InvalidOption(
            f"{where} must be steps, or bytes such as '500MB', '2GB' or '1.5GiB'; got {capacity!r}."
        )
    return capacity


def steps_within(capacity: Capacity, step_bytes: int) -> int:
    """Return the number of steps of a given size that fit a checked capacity."""
    if not isinstance(capacity, str):
        return int(capacity)
    found = _SIZE.fullmatch(capacity)
    assert found is not None
    number, unit = found.groups()
    # Rounded down: the replay stays below what it may take.
    return int(float(number) * _UNITS[(unit or "").upper()]) // step_bytes

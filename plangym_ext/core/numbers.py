"""Validation of numeric options: integers, finite floats, timeouts, bounds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from plangym_ext.errors import InvalidOption


def at_least(where: str, value: Any, least: int) -> int:
    """Return `value` as an int; raise if it is not an integer >= `least`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InvalidOption(f"{where} must be an integer >= {least}; got {value!r}.")
    return int(value)


def rounding_of(sums: Any) -> float:
    """Return by how much sums of float64 rewards may differ that were added in another order.

    Rounding a step adds 1e-16 of the sum: this is enough for ten thousand steps whose roundings
    fall alike, and for any number of steps whose roundings fall either way.

    Args:
        sums: numbers, the largest of which tells how large their parts are.
    """
    return 1e-12 * float(np.max(np.abs(sums), initial=0.0))


def finite_between(where: str, value: float, low: float, high: float) -> float:
    """Return `value` as a float; raise if it is not in [low, high] (NaN is not)."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and low <= number <= high):
        raise InvalidOption(f"{where} must be a finite number in [{low}, {high}]; got {value!r}.")
    return number


def seconds_or_none(where: str, value: Any) -> float | None:
    """Return a limit in seconds as a float, or None for none.

    Raises:
        InvalidOption: it is no number above 0.
    """
    if value is None:
        return None
    if not _is_number(value) or not 0 < value < float("inf"):
        raise InvalidOption(
            f"{where} must be a number of seconds above 0, or None for no limit; got {value!r}."
        )
    return float(value)


def wait_or_none(where: str, value: Any) -> float | None:
    """Return how many seconds a caller waits as a float, or None for as long as it takes.

    Raises:
        InvalidOption: it is no number from 0 on (NaN is not).
    """
    if value is None:
        return None
    if not _is_number(value) or not value >= 0:
        raise InvalidOption(
            f"{where} must be a number of seconds from 0 on, or None to wait as long as it takes; "
            f"got {value!r}."
        )
    return float(value)


def _is_number(value: Any) -> bool:
    # Python's bools are ints.
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)

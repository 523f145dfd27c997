"""Refusing numbers that would silently spoil a plan."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
import numpy.typing as npt


def check_finite(where: str, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return `values` `[L]` as float64.

    Args:
        where: how messages call them, the planner first.
        values: rewards, or what has been made of rewards.

    Raises:
        ValueError: one of them is infinite or not a number.
    """
    numbers = np.ascontiguousarray(values, np.float64)
    if not all_finite(numbers):
        raise ValueError(
            f"{where} must be finite; got {numbers[:8]}. "
            f"Look for a division by zero in the env's reward."
        )
    return numbers


@numba.njit(cache=True, nogil=True, error_model="numpy")
def all_finite(values: npt.NDArray[Any]) -> bool:
    """Whether none of `values` `[L]` is NaN or infinite."""
    for value in values:  # noqa: SIM110 - numba has no all()
        if not math.isfinite(value):
            return False
    return True

"""Refusing numbers that would silently spoil a plan."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from plangym_ext.planners.waves import all_finite


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

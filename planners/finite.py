"""Checks of rewards and returns for NaN, infinite and huge numbers; their spread."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.core.compiling.jit import kernel
from plangym_ext.errors import InvalidObservation

#: What no number may exceed: trees hold sums of some as float32, which ends at 3.4e38.
_MOST = 1e30
# A few thousand times what one operation rounds: what long sums of rewards come to.
_ROUNDING = 1e-12


def check_finite(where: str, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return `values` `[L]` as float64 after a check that all are finite.

    Args:
        where: how messages call them, the planner first.
        values: rewards, or what has been made of rewards.

    Raises:
        InvalidObservation: one of them is infinite, not a number, or beyond 1e30.
    """
    numbers = np.ascontiguousarray(values, np.float64)
    if not all_finite(numbers):
        raise InvalidObservation(
            f"{where} must be finite, and no larger than {_MOST:g}; got {numbers[:8]}. "
            f"Look for a division by zero in the env's reward, or scale it down."
        )
    return numbers


def spread_of(values: npt.NDArray[np.float64]) -> float:
    """Return the standard deviation of `values` `[L]`, or 0 if it is only rounding.

    To divide by the spread of equal sums that were rounded differently would make their
    last bits as large as any difference there can be.
    """
    spread, size = float(values.std()), float(np.abs(values).max())
    return spread if math.isfinite(spread) and spread > _ROUNDING * size else 0.0


@kernel
def all_finite(values: npt.NDArray[Any]) -> bool:
    """Return whether none of `values` `[L]` is NaN, infinite or beyond 1e30."""
    for value in values:  # noqa: SIM110 - numba has no all()
        if not abs(value) <= _MOST:  # NaN is not either
            return False
    return True

"""The Control Suite's `tolerance` reward functions: 1 within bounds, decaying outside.

Source: dm_control/utils/rewards.py (Apache License 2.0). A value of n rows is to the last bit
what dm_control has for each of them alone, which takes the square of a single number by the C
library's `pow`.
"""

from __future__ import annotations

import math

import numpy as np

_AT_MARGIN = 0.1


def gaussian(
    values: np.ndarray, low: float, high: float, margin: float, at_margin: float = _AT_MARGIN
) -> np.ndarray:
    """Return 1 in [low, high], less by a bell curve outside, `at_margin` at distance `margin`.

    Args:
        values: `[n]` float64.
        low: the lower bound.
        high: the upper one; infinite for none.
        margin: more than 0.
        at_margin: in (0, 1).
    """
    # So that at distance 1 the curve is exp(log(at_margin)).
    scale = np.sqrt(-2 * np.log(at_margin))
    curve = np.exp(-0.5 * squares(_distance(values, low, high, margin) * scale))
    return np.where(_inside(values, low, high), 1.0, curve)


def linear(
    values: np.ndarray, low: float, high: float, margin: float, at_margin: float = 0.0
) -> np.ndarray:
    """Return 1 in [low, high], less by a line outside, `at_margin` at distance `margin`.

    Args:
        values: `[n, ...]` float64.
        low: the lower bound.
        high: the upper one; infinite for none.
        margin: more than 0.
        at_margin: in [0, 1).
    """
    scaled = _distance(values, low, high, margin) * (1 - at_margin)
    # Inside the bounds the distance has no meaning: the last line takes 1 there.
    curve = np.where(np.abs(scaled) < 1, 1 - scaled, 0.0)
    return np.where(_inside(values, low, high), 1.0, curve)


def quadratic(values: np.ndarray, margin: float) -> np.ndarray:
    """Return 1 at 0, less by a parabola, 0 from distance `margin` on.

    Args:
        values: `[n, ...]` float64, of which dm_control squares a whole array.
        margin: more than 0.
    """
    scaled = _distance(values, 0.0, 0.0, margin)
    curve = np.where(np.abs(scaled) < 1, 1 - scaled**2, 0.0)
    return np.where(_inside(values, 0.0, 0.0), 1.0, curve)


def within(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return 1.0 in [low, high], 0.0 outside."""
    return np.where(_inside(values, low, high), 1.0, 0.0)


def squares(values: np.ndarray) -> np.ndarray:
    """Return `value ** 2` of each of `[n]` as of a single number."""
    return np.array([value**2 for value in values.tolist()], np.float64)


def _inside(values: np.ndarray, low: float, high: float) -> np.ndarray:
    inside: np.ndarray = (low <= values) & (values <= high)
    return inside


def _distance(values: np.ndarray, low: float, high: float, margin: float) -> np.ndarray:
    """Return how many margins the values lie outside; what is inside has no meaning."""
    beyond = values - high if math.isfinite(high) else np.full_like(values, -np.inf)
    found: np.ndarray = np.where(values < low, low - values, beyond) / margin
    return found

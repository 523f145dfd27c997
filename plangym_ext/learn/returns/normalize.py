"""Advantage normalisation to mean 0 and standard deviation 1."""

from __future__ import annotations

from typing import Any

from plangym_ext.learn.returns.namespace import converter, floating


def normalized(advantage: Any, valid: Any = None, *, epsilon: float = 1e-6) -> Any:
    """Subtract the mean and divide by the standard deviation plus `epsilon`.

    A single advantage stays as it is: less its own mean it would be 0, and teach nothing.

    Args:
        advantage: `[T, B]` or `[T, B, ...]`; trailing axes are normalised one by one, as
            they belong to different agents.
        valid: `[T, B]` bool: only these rows count. The others are transformed alike.
        epsilon: keeps equal advantages finite.
    """
    convert = converter(advantage, valid)
    array = floating(convert(advantage))
    flat = array.reshape((-1, *array.shape[2:]))
    counted = flat if valid is None else flat[convert(valid).reshape(-1) != 0]
    if len(counted) < 2:
        return array
    # The population's deviation, in both libraries.
    mean = counted.mean(0)
    deviation = ((counted - mean) ** 2).mean(0) ** 0.5
    # Added to the deviation and not under the root, as the usual implementations of PPO do.
    return (array - mean) / (deviation + epsilon)

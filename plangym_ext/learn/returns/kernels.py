"""Compiled backward recurrence of the return functions."""

from __future__ import annotations

from typing import Any

from plangym_ext.core.compiling.jit import kernel


@kernel
def backward(step: Any, decay: Any, carry: Any, out: Any) -> None:
    """Write x_t = step_t + decay_t x_{t+1} to `out`, from the last row to the first.

    Args:
        step: `[T, N]`.
        decay: `[T, N]`.
        carry: `[N]` float64, x_T; overwritten.
        out: `[T, N]`, written.
    """
    for t in range(len(step) - 1, -1, -1):
        for n in range(len(carry)):
            # Not 0 * x: what comes after an end may be infinite or no number.
            carry[n] = step[t, n] if decay[t, n] == 0 else step[t, n] + decay[t, n] * carry[n]
            out[t, n] = carry[n]

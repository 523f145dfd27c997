"""Backward linear recurrence over time, the core of all return functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from plangym_ext.learn.returns.namespace import namespace_of


def recurrence(step: Any, decay: Any, last: Any) -> Any:
    """Return x `[T, B, *K]` with x_t = step_t + decay_t x_{t+1} and x_T = `last`.

    Where the decay is 0 nothing of x_{t+1} is read, be it infinite or no number.
    Sums are carried in float64, except on a device and in half precision.

    Args:
        step: `[T, B, *K]` of a floating dtype.
        decay: the same shape.
        last: `[B, *K]`.
    """
    xp = namespace_of(step)
    if xp is np:
        return compiled_recurrence(step, decay, last)
    if step.device.type == "cpu" and step.dtype in (xp.float32, xp.float64):
        found = compiled_recurrence(step.numpy(), decay.numpy(), last.numpy())
        return xp.from_numpy(found)
    return stepwise_recurrence(xp, step, decay, last)


def compiled_recurrence(step: Any, decay: Any, last: Any) -> Any:
    """Compute `recurrence` of numpy arrays, in one compiled loop."""
    # Here and not above: the compiler takes half a second to import.
    from plangym_ext.learn.returns.kernels import backward

    # numpy cannot infer -1 of an array without elements.
    flat = (len(step), -1) if step.size else (len(step), 0)
    out = np.empty(step.shape, step.dtype)
    steps, decays = (np.ascontiguousarray(array).reshape(flat) for array in (step, decay))
    # A copy, which the loop writes to. In float64: sums of thousands of float32 rewards would lose
    # digits.
    carry = np.array(last, np.float64).reshape(-1)
    backward(steps, decays, carry, out.reshape(flat))
    return out


def stepwise_recurrence(xp: Any, step: Any, decay: Any, last: Any) -> Any:
    """Compute `recurrence` of tensors anywhere, one operation after the other."""
    out = xp.empty_like(step)
    for t in range(len(step) - 1, -1, -1):
        # Not 0 * x, as in the compiled loop.
        last = xp.where(decay[t] == 0, step[t], step[t] + decay[t] * last)
        out[t] = last
    return out

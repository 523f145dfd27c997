"""Losses of Q values in compiled code, with their gradients."""

from __future__ import annotations

from typing import Any

from plangym_ext.core.compiling.jit import kernel


@kernel
def q_errors(
    q: Any, index: Any, target: Any, weight: Any, huber: bool, d_q: Any, errors: Any
) -> tuple[float, float]:
    """Write the gradient of the mean loss of the actions that were played, and their errors.

    Args:
        q: `[N, A]` float32.
        index: `[N]` int64, of the actions.
        target: `[N]` float32.
        weight: `[N]` float32, importance weights.
        huber: whether the loss grows with slope 1 from an error of 1; else it is half the
            squared error.
        d_q: `[N, A]` float32, written.
        errors: `[N]` float32, written: absolute errors.

    Returns:
        The mean loss, and the mean of the Q values.
    """
    count = len(index)
    loss = total = 0.0
    # Actions that were not played have no part in the loss.
    d_q[:] = 0
    for n in range(count):
        value = q[n, index[n]]
        error = value - target[n]
        size = abs(error)
        errors[n] = size
        total += value
        slope = error
        # NaN is not above 1: it takes the other branch, and shows in the loss.
        if huber and size > 1:
            slope = error / size
            loss += weight[n] * (size - 0.5)
        else:
            loss += weight[n] * 0.5 * size * size
        # A mean over the rows: weights are at most 1 as they come, and are not normalised here.
        d_q[n, index[n]] = weight[n] * slope / count
    return loss / count, total / count

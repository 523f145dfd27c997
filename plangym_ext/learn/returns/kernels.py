"""Compiled backward recurrences of returns and advantages (GAE)."""

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


@kernel
def gae(
    reward: Any,
    value: Any,
    terminated: Any,
    truncated: Any,
    final_value: Any,
    bootstrap: Any,
    discount: float,
    lam: float,
    out: Any,
) -> None:
    """Write generalised advantage estimates; see `plangym_ext.learn.returns.gae`.

    Args:
        reward: `[T, B]` float32.
        value: `[T, B]` float32, of the observation before each row.
        terminated: `[T, B]` bool.
        truncated: `[T, B]` bool.
        final_value: `[T, B]` float32, of the last observation where one is truncated.
        bootstrap: `[B]` float32, of the observation after the last row.
        discount: gamma.
        lam: λ.
        out: `[T, B]` float32, written.
    """
    # Factors of the rewards' dtype: with float64 ones every sum would be rounded otherwise.
    kind = reward.dtype.type
    each, decay = kind(discount), kind(discount * lam)
    for b in range(reward.shape[1]):
        following, advantage = bootstrap[b], kind(0)
        for t in range(reward.shape[0] - 1, -1, -1):
            # First: a row with both flags bootstraps nothing. Either way the advantages of the next
            # rows belong to another episode.
            if terminated[t, b]:
                following, advantage = kind(0), kind(0)
            elif truncated[t, b]:
                following, advantage = final_value[t, b], kind(0)
            delta = reward[t, b] + each * following - value[t, b]
            advantage = delta + decay * advantage
            out[t, b] = advantage
            # Of row t - 1 it is what follows.
            following = value[t, b]

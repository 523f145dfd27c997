"""Compiled gradients of policy and value losses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from plangym_ext.core.compiling.jit import kernel, kernel_inline
from plangym_ext.learn.distributions.limits import LOG_STD

_LOW, _HIGH = LOG_STD
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


@kernel_inline
def _surrogate(
    log_prob: float, old_log_prob: float, advantage: float, clip: float
) -> tuple[float, float, float]:
    """Return the loss of a row, its gradient in log_prob, and the row's divergence."""
    # Gradients are in log_prob: d(-A log p) / d log p = -A.
    if clip < 0:
        return -advantage * log_prob, -advantage, 0.0
    log_ratio = log_prob - old_log_prob
    ratio = math.exp(log_ratio)
    plain = ratio * advantage
    clipped = min(max(ratio, 1 - clip), 1 + clip) * advantage
    # The estimator (r - 1) - log r, never negative (Schulman 2020, "Approximating KL divergence");
    # `expm1`, as r - 1 near 1 would lose all digits of float32.
    kl = math.expm1(log_ratio) - log_ratio
    # The minimum of the two is the plain one: d(-r A) / d log p = -r A. Where the clipped one is
    # lower it is a constant.
    if plain <= clipped:
        return -plain, -plain, kl
    return -clipped, 0.0, kl


@kernel
def categorical(
    params: Any,
    target: Any,
    old_log_prob: Any,
    advantage: Any,
    clip: float,
    entropy_weight: float,
    bounds: Any,
    d_params: Any,
) -> tuple[float, float, float]:
    """Write the gradient of a policy loss, with logits of one or more discrete actions.

    Args:
        params: `[N, P]` float32, logits of all parts side by side.
        target: `[N, K]` int64, the number of the action in each part.
        old_log_prob: `[N]` float32.
        advantage: `[N]` float32.
        clip: of `clipped_policy_loss`; negative: the loss is `policy_gradient_loss`.
        entropy_weight: of the mean entropy, which is subtracted.
        bounds: `[K + 1]` int64, where the parts begin and end.
        d_params: `[N, P]` float32, written.

    Returns:
        Means of the policy loss, of the entropy, and of `approximate_kl`.
    """
    rows, loss, entropies, moved = len(params), 0.0, 0.0, 0.0
    for n in range(rows):
        log_prob = 0.0
        for k in range(len(bounds) - 1):
            # The greatest logit is taken out first: `exp` of what is left is at most 1.
            most, total = -np.inf, 0.0
            for p in range(bounds[k], bounds[k + 1]):
                most = max(most, params[n, p])
            for p in range(bounds[k], bounds[k + 1]):
                total += math.exp(params[n, p] - most)
            norm = most + math.log(total)
            for p in range(bounds[k], bounds[k + 1]):
                d_params[n, p] = params[n, p] - norm  # its logarithm, until below
            log_prob += params[n, bounds[k] + target[n, k]] - norm
        found, slope, kl = _surrogate(log_prob, old_log_prob[n], advantage[n], clip)
        loss, moved = loss + found, moved + kl
        for k in range(len(bounds) - 1):
            entropy = 0.0
            for p in range(bounds[k], bounds[k + 1]):
                entropy -= math.exp(d_params[n, p]) * d_params[n, p]
            for p in range(bounds[k], bounds[k + 1]):
                log = d_params[n, p]
                chance = math.exp(log)
                chosen = 1.0 if p == bounds[k] + target[n, k] else 0.0
                # d log p_k / d logit_p is [p = k] - chance_p; d(-H) / d logit_p is chance_p (log
                # chance_p + H).
                gradient = slope * (chosen - chance) + entropy_weight * chance * (log + entropy)
                d_params[n, p] = gradient / rows
            entropies += entropy
    return loss / rows, entropies / rows, moved / rows


@kernel
def gaussian(
    params: Any,
    target: Any,
    old_log_prob: Any,
    advantage: Any,
    clip: float,
    entropy_weight: float,
    bounds: Any,  # noqa: ARG001 - as of `categorical`
    d_params: Any,
) -> tuple[float, float, float]:
    """Write the gradient of a policy loss, with D means and log deviations.

    Args:
        params: `[N, 2 D]` float32.
        target: `[N, D]` float32, actions in the units of the means.
        old_log_prob: see `categorical`, as all that follows.
        advantage: `[N]`.
        clip: a number.
        entropy_weight: a number.
        bounds: not looked at.
        d_params: `[N, 2 D]` float32, written.
    """
    rows, loss, entropies, moved = len(params), 0.0, 0.0, 0.0
    size = target.shape[1]
    for n in range(rows):
        log_prob = 0.0
        for d in range(size):
            log_std = min(max(params[n, size + d], _LOW), _HIGH)
            error = (target[n, d] - params[n, d]) * math.exp(-log_std)
            log_prob -= 0.5 * error * error + log_std + _HALF_LOG_2PI
        found, slope, kl = _surrogate(log_prob, old_log_prob[n], advantage[n], clip)
        loss, moved = loss + found, moved + kl
        for d in range(size):
            log_std = min(max(params[n, size + d], _LOW), _HIGH)
            narrow = math.exp(-log_std)
            error = (target[n, d] - params[n, d]) * narrow
            # d log p / d mean = error / std, d log p / d log_std = error^2 - 1; the entropy grows
            # by 1 with each log_std.
            d_params[n, d] = slope * error * narrow / rows
            # At a bound the clipped deviation does not follow the parameter, as `clamp` in torch.
            inside = log_std == params[n, size + d]
            d_params[n, size + d] = (
                (slope * (error * error - 1) - entropy_weight) / rows if inside else 0.0
            )
            entropies += log_std + 0.5 + _HALF_LOG_2PI
    return loss / rows, entropies / rows, moved / rows


@kernel
def squared_error(
    value: Any, old_value: Any, target: Any, clip: float, weight: float, d_value: Any
) -> float:
    """Write the gradient of a value loss.

    Args:
        value: `[N, 1]` float32.
        old_value: `[N]` float32.
        target: `[N]` float32.
        clip: of `clipped_value_loss`; negative: the loss is `value_loss`.
        weight: of the loss in the gradient.
        d_value: `[N, 1]` float32, written.

    Returns:
        The loss.
    """
    rows, loss = len(value), 0.0
    for n in range(rows):
        error, passes = value[n, 0] - target[n], 1.0
        if clip >= 0:
            moved = value[n, 0] - old_value[n]
            near = old_value[n] + min(max(moved, -clip), clip) - target[n]
            # The greater of the two losses, so a value never gains by moving far (Schulman et al.
            # 2017, PPO's code).
            if near * near > error * error:
                error, passes = near, 1.0 if -clip <= moved <= clip else 0.0
        loss += error * error
        d_value[n, 0] = 2 * weight * passes * error / rows
    return loss / rows


@kernel
def standardize(advantage: Any, epsilon: float) -> None:
    """Normalise `[N]` to mean 0 and deviation 1 in place, as `normalized` does."""
    if len(advantage) < 2:
        return
    mean, squares = 0.0, 0.0
    for n in range(len(advantage)):
        mean += advantage[n]
    mean /= len(advantage)
    for n in range(len(advantage)):
        # A second pass: the difference of two large sums would cancel. Divided by N, not N - 1, as
        # `normalized` does.
        squares += (advantage[n] - mean) ** 2
    scale = 1 / (math.sqrt(squares / len(advantage)) + epsilon)
    for n in range(len(advantage)):
        advantage[n] = (advantage[n] - mean) * scale

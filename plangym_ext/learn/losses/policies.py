"""Policy and value losses (policy gradient, PPO clipping) as masked means."""

from __future__ import annotations

from typing import Any, Unpack

from plangym_ext.learn.returns import multistep, vtrace
from plangym_ext.learn.returns.checked import Ends
from plangym_ext.learn.torch_extra import torch


def mean_of(rows: Any, valid: Any = None) -> Any:
    """Return the mean of the valid rows, a scalar; 0 without any.

    Args:
        rows: `[...]`.
        valid: bool, the same shape; None: all count. The others may be anything, NaN too,
            and get no gradient.
    """
    if valid is None:
        return rows.mean()
    # `where` and not a product: NaN times 0 is NaN, in the loss and in the gradient.
    return torch.where(valid, rows, 0.0).sum() / valid.sum().clamp(min=1)


def policy_gradient_loss(log_prob: Any, advantage: Any, valid: Any = None) -> Any:
    """Return minus the mean of advantage times log-probability.

    Args:
        log_prob: `[...]`, of the actions that were played, by the policy that learns.
        advantage: `[...]`, without gradient.
        valid: see `mean_of`.

    Source: Williams 1992, "Simple statistical gradient-following algorithms for connectionist
    reinforcement learning"; Mnih et al. 2016, "Asynchronous methods for deep reinforcement
    learning".
    """
    return -mean_of(advantage * log_prob, valid)


def clipped_policy_loss(
    log_prob: Any, old_log_prob: Any, advantage: Any, clip: float, valid: Any = None
) -> Any:
    """Return minus the mean of min(r A, clip(r, 1 - clip, 1 + clip) A), r the likelihood ratio.

    Args:
        log_prob: `[...]`, of whole actions: logarithms are summed over their numbers, so that
            equal policies have the ratio 1 exactly.
        old_log_prob: `[...]`, when they were played.
        advantage: `[...]`, without gradient.
        clip: how far from 1 a ratio gets a gradient.
        valid: see `mean_of`.

    Source: Schulman et al. 2017, "Proximal policy optimization algorithms", equation 7.
    """
    ratio = (log_prob - old_log_prob).exp()
    clipped = ratio.clamp(1 - clip, 1 + clip)
    # The minimum, not the clipped one alone: a ratio that moved to the worse side has a gradient.
    return -mean_of(torch.minimum(ratio * advantage, clipped * advantage), valid)


def value_loss(value: Any, target: Any, valid: Any = None) -> Any:
    """Return the mean squared error of values `[...]`."""
    return mean_of((value - target) ** 2, valid)


def clipped_value_loss(
    value: Any, old_value: Any, target: Any, clip: float, valid: Any = None
) -> Any:
    """Return the mean of max(squared error, squared error of the clipped value).

    Args:
        value: `[...]`, of the network that learns.
        old_value: `[...]`, when the rows were played.
        target: `[...]`, without gradient.
        clip: how far from the old value the other one may be.
        valid: see `mean_of`.
    """
    near = old_value + (value - old_value).clamp(-clip, clip)
    return mean_of(torch.maximum((value - target) ** 2, (near - target) ** 2), valid)


def approximate_kl(log_prob: Any, old_log_prob: Any, valid: Any = None) -> Any:
    """Return an estimate of KL(old || new) from actions of the old: the mean of r - 1 - log r.

    It is never negative and needs no parameters of the old policy; arguments as in
    `clipped_policy_loss`.

    Source: Schulman 2020, "Approximating KL divergence", estimator k3.
    """
    log_ratio = log_prob - old_log_prob
    # r - 1 would lose its digits where the policies hardly differ, as after one update.
    return mean_of(torch.expm1(log_ratio) - log_ratio, valid)


def clip_share(log_prob: Any, old_log_prob: Any, clip: float, valid: Any = None) -> Any:
    """Return the share of rows whose ratio is farther than `clip` from 1."""
    far = ((log_prob - old_log_prob).exp() - 1).abs() > clip
    return mean_of(far.to(log_prob.dtype), valid)


def explained_variance(value: Any, target: Any, valid: Any = None) -> Any:
    """Return 1 - Var(target - value) / Var(target) over valid rows; 0 for constant targets."""
    if valid is not None:
        value, target = value[valid], target[valid]
    if not target.numel():
        return target.new_zeros(())
    # Divided by N in both variances, so that one row gives 0 and not NaN.
    whole = target.var(correction=0)
    return torch.where(whole > 0, 1 - (target - value).var(correction=0) / whole, 0.0)


def vtrace_estimates(
    log_ratio: Any,
    value: Any,
    reward: Any,
    terminated: Any,
    *,
    discount: float,
    ratio_clip: float | None = 1.0,
    trace_clip: float | None = 1.0,
    **ends: Unpack[Ends],
) -> tuple[Any, Any]:
    """Return policy-gradient weights and value targets of V-trace, `[T, B]` each.

    Args:
        log_ratio: `[T, B]`, log-probability by the policy that learns less that of then.
        value: `[T, B]`, of the network that learns, without gradient.
        reward: `[T, B]`.
        terminated: `[T, B]` bool.
        discount: gamma.
        ratio_clip: limit of the ratio in errors and in the policy's gradient; None: none.
        trace_clip: limit of the ratio in the trace; None: none.
        **ends: see `plangym_ext.learn.returns.returns`.

    Source: Espeholt et al. 2018, "IMPALA", section 4.
    """
    target = vtrace(
        reward,
        value,
        terminated,
        discount=discount,
        log_ratio=log_ratio,
        ratio_clip=ratio_clip,
        trace_clip=trace_clip,
        **ends,
    )
    # Of one step: the reward, and the target of what follows it.
    quality = multistep(reward, target, terminated, discount=discount, n=1, **ends)
    # An infinite ratio comes down to the limit here; without a limit it shows in the loss.
    ratio = log_ratio.exp()
    if ratio_clip is not None:
        ratio = ratio.clamp(max=ratio_clip)
    return ratio * (quality - value), target

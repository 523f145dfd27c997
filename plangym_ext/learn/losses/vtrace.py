"""V-trace losses of policy and value (IMPALA)."""

from __future__ import annotations

from typing import Any, NamedTuple, Unpack

from plangym_ext.learn.losses.policies import policy_gradient_loss, value_loss
from plangym_ext.learn.returns import multistep, vtrace
from plangym_ext.learn.returns.checked import Ends


class VTraceLosses(NamedTuple):
    """Policy loss, value loss and entropy, as scalars."""

    policy: Any
    value: Any


def vtrace_losses(
    log_prob: Any,
    old_log_prob: Any,
    value: Any,
    reward: Any,
    terminated: Any,
    *,
    gamma: float,
    ratio_clip: float | None = 1.0,
    trace_clip: float | None = 1.0,
    **ends: Unpack[Ends],
) -> VTraceLosses:
    """Return IMPALA's policy and value losses for rows of an older policy.

    Args:
        log_prob: `[T, B]`, of the actions that were played, by the policy that learns.
        old_log_prob: `[T, B]`, when they were played.
        value: `[T, B]`, of the network that learns.
        reward: `[T, B]`.
        terminated: `[T, B]` bool.
        gamma: discount.
        ratio_clip: limit of the ratio in errors and in the policy's gradient; None: none.
        trace_clip: limit of the ratio in the trace; None: none.
        **ends: see `plangym_ext.learn.returns.returns`.

    Source: Espeholt et al. 2018, "IMPALA", section 4.
    """
    # Ratios weight the gradients, and are none of what is differentiated.
    log_ratio = (log_prob - old_log_prob).detach()
    advantage, target = vtrace_estimates(
        log_ratio,
        value.detach(),
        reward,
        terminated,
        gamma=gamma,
        ratio_clip=ratio_clip,
        trace_clip=trace_clip,
        **ends,
    )
    valid = ends.get("valid")
    return VTraceLosses(
        policy_gradient_loss(log_prob, advantage, valid), value_loss(value, target, valid)
    )


def vtrace_estimates(
    log_ratio: Any,
    value: Any,
    reward: Any,
    terminated: Any,
    *,
    gamma: float,
    ratio_clip: float | None = 1.0,
    trace_clip: float | None = 1.0,
    **ends: Unpack[Ends],
) -> tuple[Any, Any]:
    """Return policy-gradient weights and value targets, `[T, B]` each.

    Args:
        log_ratio: `[T, B]`, log-probability by the policy that learns less that of then.
        value: `[T, B]`, of the network that learns, without gradient.
        reward: see `vtrace_losses`, as all that follows.
        terminated: flags.
        gamma: discount.
        ratio_clip: limit of the ratio in errors and in the policy's gradient.
        trace_clip: limit of the ratio in the trace.
        **ends: see `vtrace_losses`.
    """
    target = vtrace(
        reward,
        value,
        terminated,
        gamma=gamma,
        log_ratio=log_ratio,
        ratio_clip=ratio_clip,
        trace_clip=trace_clip,
        **ends,
    )
    # Of one step: the reward, and the target of what follows it.
    quality = multistep(reward, target, terminated, gamma=gamma, n=1, **ends)
    # An infinite ratio comes down to the limit here; without a limit it shows in the loss.
    ratio = log_ratio.exp()
    if ratio_clip is not None:
        ratio = ratio.clamp(max=ratio_clip)
    return ratio * (quality - value), target

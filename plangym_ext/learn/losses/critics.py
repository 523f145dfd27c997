"""Losses of critics, deterministic and soft policies, and the entropy temperature.

E critics see N rows. Targets and weights have no gradient. Rows whose `discount` is 0 ended by
termination and bootstrap from nothing; truncated ones have the discount of any other.
"""

from __future__ import annotations

from typing import Any

from plangym_ext.learn.torch_extra import torch


def bootstrapped(reward: Any, discount: Any, next_value: Any) -> Any:
    """Return the targets `[N]`: reward + discount * next_value.

    Args:
        reward: `[N]`, the discounted sum of up to n rewards.
        discount: `[N]`, gamma to the power of their number; 0 where `terminated`.
        next_value: `[N]`, of what follows; not looked at where the discount is 0.
    """
    # Not 0 * value: what follows a termination may be anything, infinite too.
    return torch.where(discount == 0, reward, reward + discount * next_value)


def critic_loss(q: Any, target: Any, weights: Any = None) -> Any:
    """Return half the mean squared error of each critic, summed over them.

    Args:
        q: `[E, N]`, of the actions that were played.
        target: `[N]`.
        weights: `[N]` of the rows, from prioritised draws; None: all 1.
    """
    error = (q - target) ** 2
    if weights is not None:
        error = error * weights
    return 0.5 * error.mean(dim=1).sum()


def soft_value(q: Any, log_prob: Any, temperature: Any) -> Any:
    """Return the entropy-regularised values of rows, `[N]`.

    Minus the mean of it is the loss of the policy, whose gradient comes by q and log_prob.

    Args:
        q: `[E, N]`, of actions that the policy drew; the lowest counts.
        log_prob: `[N]`, of these actions.
        temperature: of the entropy.

    Source: Haarnoja et al. 2018, "Soft actor-critic algorithms and applications", equation 3.
    """
    # The lowest of the critics: the policy seeks out errors upwards, which the highest or the mean
    # would reward.
    return q.amin(dim=0) - temperature * log_prob


def temperature_loss(log_temperature: Any, log_prob: Any, target_entropy: Any) -> Any:
    """Return the loss whose gradient raises the temperature where the entropy is too low.

    Args:
        log_temperature: scalar, with gradient.
        log_prob: `[N]`, minus its mean is the entropy: of actions that the policy drew, or of
            each row the mean over all of them.
        target_entropy: what the entropy is to be, a number or `[N]`.

    Source: Haarnoja et al. 2018, equation 18, with the logarithm in place of the temperature, as
    in the authors' code.
    """
    # Detached: the policy is not to change its entropy by way of this loss.
    return -(log_temperature * (log_prob.detach() + target_entropy)).mean()


def discrete_soft_value(q: Any, log_probs: Any, temperature: Any) -> Any:
    """Return `[N]` as `soft_value`, as the exact mean over all discrete actions.

    Args:
        q: `[E, N, A]`; the lowest counts.
        log_probs: `[N, A]`, of the policy.
        temperature: of the entropy.

    Source: Christodoulou 2019, "Soft actor-critic for discrete action settings", equation 10.
    """
    return (log_probs.exp() * (q.amin(dim=0) - temperature * log_probs)).sum(dim=1)


def deterministic_policy_loss(q: Any) -> Any:
    """Return minus the mean of one critic's values `[N]`; its gradient reaches the policy.

    Source: Silver et al. 2014, "Deterministic policy gradient algorithms"; Lillicrap et al.
    2016, "Continuous control with deep reinforcement learning".
    """
    return -q.mean()


def smoothed(numbers: Any, normal: Any, deviation: float, clip: float) -> Any:
    """Return actions `[N, D]` with clipped noise, in units in which the bounds are -1 and 1.

    Args:
        numbers: `[N, D]`, the actions in these units.
        normal: `[N, D]`, of mean 0 and deviation 1.
        deviation: of the noise.
        clip: most noise.

    Source: Fujimoto et al. 2018, "Addressing function approximation error in actor-critic
    methods", equation 14.
    """
    # The noise is clipped first, then the action: both in units of the bounds, so one deviation
    # suits all actions.
    return (numbers + (deviation * normal).clamp(-clip, clip)).clamp(-1.0, 1.0)

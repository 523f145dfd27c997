"""Losses of Q values: pure functions of tensors."""

from __future__ import annotations

from typing import Any

from plangym_ext.learn.torch_extra import functional, torch


def q_target(reward: Any, discount: Any, next_q: Any, chosen_by: Any = None) -> Any:
    """Return `[N]` what actions should be worth: reward + discount * Q of the best that follows.

    Args:
        reward: `[N]`, summed over the steps before `next_q`.
        discount: `[N]`, of what follows; 0 after a termination.
        next_q: `[N, A]`, by the target network.
        chosen_by: `[N, A]`, by the network that learns, which then says which action is best;
            None: `next_q` does.

    Source: Mnih et al. 2015, "Human-level control through deep reinforcement learning"; with
    `chosen_by` van Hasselt et al. 2016, "Deep reinforcement learning with double Q-learning".
    """
    if chosen_by is None:
        following = next_q.amax(dim=1)
    else:
        following = next_q.gather(1, chosen_by.argmax(dim=1, keepdim=True))[:, 0]
    return torch.addcmul(reward, discount, following)


def chosen(q: Any, index: Any) -> Any:
    """Return `[N, ...]`, of `q` `[N, A, ...]` what belongs to the actions `[N]` int64."""
    if q.ndim == 2:
        return q.gather(1, index[:, None])[:, 0]
    return q[torch.arange(len(index), device=q.device), index]


def weighted_mean(rows: Any, weight: Any = None) -> Any:
    """Return the mean of rows `[N]`, each times its weight `[N]`, a scalar."""
    return rows.mean() if weight is None else (rows * weight).mean()


def error_loss(value: Any, target: Any, kind: str = "huber", weight: Any = None) -> Any:
    """Return the mean loss of values, a scalar.

    Args:
        value: `[N]`.
        target: `[N]`, without gradient.
        kind: "squared", half the squared error; or "huber", which is the same up to an error
            of 1 and grows with slope 1 from there.
        weight: `[N]` importance weights; None: all are 1.

    Source: Huber 1964, "Robust estimation of a location parameter".
    """
    how = "mean" if weight is None else "none"
    if kind == "huber":
        rows = functional.smooth_l1_loss(value, target, reduction=how)
    else:
        rows = 0.5 * functional.mse_loss(value, target, reduction=how)
    return rows if weight is None else weighted_mean(rows, weight)

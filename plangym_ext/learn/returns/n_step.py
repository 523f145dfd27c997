"""Rewards of n rows at once, for targets whose value is computed later."""

from __future__ import annotations

from typing import Any, NamedTuple

from plangym_ext.errors import InvalidOption
from plangym_ext.learn.returns.checked import checked_rows
from plangym_ext.learn.returns.namespace import namespace_of


class NStep(NamedTuple):
    """`reward + discount * v` is the n-step return, v the value of what row `last` led to."""

    reward: Any  # [T, B] sum over the rows of the window
    discount: Any  # [T, B] gamma to the number of rows; 0 if the window ends in termination
    last: Any  # [T, B] int64, the last row of the window


def n_step_rewards(
    reward: Any,
    terminated: Any,
    *,
    n: int,
    gamma: float,
    truncated: Any = None,
    valid: Any = None,
) -> NStep:
    """Sum the rewards of n rows, fewer where the episode or the batch ends before.

    The row that a window starts with is stored with them; when it is drawn from a replay
    the value of the observation behind row `last` is computed by the network of that day.

    Args:
        reward: `[T, B]`; all arguments as in `returns`.
        terminated: flags.
        n: rows of a window, at least 1.
        gamma: discount.
        truncated: flags; a window ends there, and its discount stays.
        valid: flags; skipped rows count for nothing.
    """
    if n < 1:
        raise InvalidOption(f"n_step_rewards: n must be at least 1; got {n!r}.")
    zero = None if truncated is None else 0.0
    rows = checked_rows(
        "n_step_rewards",
        reward,
        terminated,
        gamma=gamma,
        truncated=truncated,
        final_value=zero,
        valid=valid,
    )
    raise NotImplementedError(rows, namespace_of)

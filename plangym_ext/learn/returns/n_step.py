"""Sums of n rewards, for n-step targets whose bootstrap value comes later."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from plangym_ext.core.numbers import at_least
from plangym_ext.learn.returns.checked import Ends, checked_rows
from plangym_ext.learn.returns.namespace import converter, namespace_of
from plangym_ext.learn.returns.rows import Rows


class NStep(NamedTuple):
    """Parts of n-step returns `reward + discount * v`, with v the value after row `last`."""

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
    the value of the observation after row `last` is computed by the network of that day.

    Args:
        reward: `[T, B]`; all arguments as in `returns`.
        terminated: flags.
        n: rows of a window, at least 1.
        gamma: discount.
        truncated: flags; a window ends there, and its discount stays.
        valid: flags; skipped rows count for nothing.
    """
    at_least("n_step_rewards: n", n, 1)
    ends: Ends = {"truncated": truncated, "valid": valid}
    if truncated is not None:
        # Only so that flags of truncation are taken: windows end there, and nothing is added.
        ends["final_value"] = 0.0
    rows = checked_rows("n_step_rewards", reward, None, terminated, gamma, ends)
    xp = namespace_of(rows.reward)
    length = min(n, len(rows.reward))
    paid, discount = xp.zeros_like(rows.reward), xp.ones_like(rows.reward)
    # What a value of 1 after the window is worth at its beginning.
    one = _with_values_of(rows, 1.0)
    # One row further back in each pass: after n passes row t has r_t + ... + gamma^(n-1) r_{t+n-1}.
    for _ in range(length):
        paid = rows.reward + gamma * rows.following(paid)
        discount = gamma * one.following(discount)
    return NStep(rows.masked(paid), rows.masked(discount), _last_rows(rows, length))


def _last_rows(rows: Rows, length: int) -> Any:
    """Return the last row of the window of each row, int64."""
    xp = namespace_of(rows.reward)
    # float64, which holds every row number, whatever the rewards are.
    own = xp.zeros_like(rows.reward, dtype=xp.float64)
    own = own + converter(own)(np.arange(float(len(own)))).reshape((-1,) + (1,) * (own.ndim - 1))
    beyond, last = _with_values_of(rows, -1.0), own
    for _ in range(length - 1):
        later = beyond.following(last)
        # -1 marks what lies beyond the batch or an end: the window stops at the row itself.
        last = xp.where(rows.ended | (later < 0), own, later)
    return xp.asarray(rows.masked(last), dtype=xp.int64)


def _with_values_of(rows: Rows, value: float) -> Rows:
    """Return the rows with one number for all values after episodes and batch."""
    number = namespace_of(rows.reward).full_like(rows.reward, value)
    return rows._replace(bootstrap=number[0], final_value=number)

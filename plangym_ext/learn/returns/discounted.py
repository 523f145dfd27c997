"""Discounted and n-step returns, with optional importance ratios, and n-step reward sums."""

from __future__ import annotations

from typing import Any, NamedTuple, Unpack

import numpy as np

from plangym_ext.core.numbers import at_least
from plangym_ext.learn.returns.checked import (
    Ends,
    Rows,
    checked_rows,
    clipped_ratio,
    converter,
    namespace_of,
    recurrence,
    refuses_unknown,
)


@refuses_unknown
def returns(
    reward: Any,
    terminated: Any,
    *,
    discount: float,
    log_ratio: Any = None,
    ratio_clip: float | None = 1.0,
    **ends: Unpack[Ends],
) -> Any:
    """Return the discounted return of every row: G_t = r_t + γ ρ_t G_{t+1}.

    Row t is the transition from observation t to the next: `reward[t]` was paid for
    it, `terminated[t]` and `truncated[t]` say whether it ended the episode. The next
    row continues the same env, after an end with a new episode.

    Args:
        reward: `[T, B]` or `[T, B, ...]`, numbers.
        terminated: `[T, B]` bool; nothing follows.
        discount: gamma per row, 0 to 1.
        log_ratio: `[T, B]`, log of the target policy's over the playing policy's probability
            of the action; None if they are the same policy.
        ratio_clip: upper limit of ρ_t = exp(log_ratio_t); None for none.
        **ends: what follows the rows, and which of them count, as all functions take it:

            - `bootstrap`: number, `[B]` or `[1, B]`, the value of the observation after the
              last row; 0 if it is not passed.
            - `truncated`: `[T, B]` bool, together with `final_value`; without, no row is.
            - `final_value`: number or `[T, B]`, the value of the observation that a truncated
              row led to, before the env was reset. Read only there.
            - `valid`: `[T, B]` bool; other rows are skipped, as though they were not there,
              and give 0. Such are the reset rows of vector envs that reset on the next step,
              and what pads episodes of unequal length.

    Returns:
        `[T, B]` or `[T, B, ...]`, numpy or torch as passed, in the common floating dtype
        of rewards and values; whole numbers count as float64. Tensors are detached.

    Raises:
        InvalidSamples: shapes do not fit each other.
        InvalidOption: a number is out of its range.
    """
    rows = checked_rows("returns", reward, None, terminated, discount, ends)
    decay: Any = rows.discount
    if log_ratio is not None:
        decay = decay * clipped_ratio("returns", "ratio_clip", rows, log_ratio, ratio_clip)
    step = rows.reward
    # What follows a truncation is added to the row itself: `fold` carries nothing over an ending.
    if rows.truncated is not None:
        step = step + namespace_of(step).where(rows.truncated, decay * rows.final_value, 0.0)
    return rows.fold(step, decay, rows.bootstrap)


@refuses_unknown
def multistep(
    reward: Any,
    value: Any,
    terminated: Any,
    *,
    discount: float,
    n: int | None = None,
    log_ratio: Any = None,
    ratio_clip: float | None = 1.0,
    **ends: Unpack[Ends],
) -> Any:
    """Return the return over n rows plus the value after them; n-step without `log_ratio`.

    x_t ← r_t + γ ρ_t x_{t+1}, n times from x = value, with x_T = bootstrap.

    Args:
        reward: as in `returns`, as all that is not named here.
        value: `[T, B]`, of the observation before each row.
        terminated: flags.
        discount: gamma.
        n: rows, at least 1; T and more, or None, give `returns`.
        log_ratio: log-ratio of the policies.
        ratio_clip: limit of the ratio.
        **ends: `bootstrap`, `truncated`, `final_value` and `valid`.
    """
    if n is not None:
        at_least("multistep: n", n, 1)
    rows = checked_rows("multistep", reward, value, terminated, discount, ends)
    decay: Any = rows.discount
    if log_ratio is not None:
        decay = decay * clipped_ratio("multistep", "ratio_clip", rows, log_ratio, ratio_clip)
    found = rows.value
    # After T passes nothing changes: every row has come to an ending, or to the bootstrap.
    for _ in range(len(found) if n is None else min(n, len(found))):
        found = rows.reward + decay * rows.following(found)
    return rows.masked(found)


@refuses_unknown
def past_returns(
    reward: Any, terminated: Any, *, discount: float, before: Any = 0.0, truncated: Any = None
) -> tuple[Any, Any]:
    """Return the discounted sum of an episode's past rewards: P_t = r_t + γ P_{t-1}.

    Its standard deviation is the scale that rewards are divided by.

    Args:
        reward: `[T, B]` or `[T, B, ...]`.
        terminated: `[T, B]` bool.
        discount: gamma per row, 0 to 1.
        before: number or `[B]`, P of the row before the first; what an earlier call returned.
        truncated: `[T, B]` bool; it ends the sum like `terminated`.

    Returns:
        (P `[T, B]`, `[B]` for `before` of the next call: 0 where an episode has ended).
    """
    ends: Ends = {"bootstrap": before}
    if truncated is not None:
        ends |= {"truncated": truncated, "final_value": 0.0}
    rows = checked_rows("past_returns", reward, None, terminated, discount, ends)
    over = rows.terminated if rows.truncated is None else rows.terminated | rows.truncated
    xp = namespace_of(rows.reward)
    # Backwards in time a row is followed by the one before it, unless that was the last.
    # In the shape and dtype of the rewards, which may have more axes than the flags.
    ended = xp.zeros_like(rows.reward) + over
    begins = xp.concatenate([xp.zeros_like(ended[:1]), ended[:-1]])
    past = recurrence(
        xp.flip(rows.reward, (0,)), xp.flip(rows.discount * (1 - begins), (0,)), rows.bootstrap
    )
    past = xp.flip(past, (0,))
    return past, past[-1] * (1 - ended[-1])


class NStep(NamedTuple):
    """Parts of n-step returns `reward + discount * v`, with v the value after row `last`."""

    reward: Any  # [T, B] sum over the rows of the window
    discount: Any  # [T, B] gamma to the number of rows; 0 if the window ends in termination
    last: Any  # [T, B] int64, the last row of the window


@refuses_unknown
def n_step_rewards(
    reward: Any,
    terminated: Any,
    *,
    n: int,
    discount: float,
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
        discount: gamma.
        truncated: flags; a window ends there, and its discount stays.
        valid: flags; skipped rows count for nothing.
    """
    at_least("n_step_rewards: n", n, 1)
    ends: Ends = {"truncated": truncated, "valid": valid}
    if truncated is not None:
        # Only so that flags of truncation are taken: windows end there, and nothing is added.
        ends["final_value"] = 0.0
    rows = checked_rows("n_step_rewards", reward, None, terminated, discount, ends)
    xp = namespace_of(rows.reward)
    length = min(n, len(rows.reward))
    paid, left = xp.zeros_like(rows.reward), xp.ones_like(rows.reward)
    # What a value of 1 after the window is worth at its beginning.
    one = _with_values_of(rows, 1.0)
    # One row further back in each pass: after n passes row t has r_t + ... + gamma^(n-1) r_{t+n-1}.
    for _ in range(length):
        paid = rows.reward + discount * rows.following(paid)
        left = discount * one.following(left)
    return NStep(rows.masked(paid), rows.masked(left), _last_rows(rows, length))


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

"""Advantage functions: TD errors, GAE, λ-returns, branches, normalisation."""

from __future__ import annotations

from typing import Any, Unpack

from plangym_ext.core.numbers import finite_between
from plangym_ext.errors import InvalidSamples
from plangym_ext.learn.returns.checked import (
    Ends,
    Rows,
    checked_array,
    checked_rows,
    clipped_ratio,
    converter,
    floating,
    namespace_of,
    refuses_unknown,
)


@refuses_unknown
def deltas(
    reward: Any,
    value: Any,
    terminated: Any,
    *,
    discount: float,
    log_ratio: Any = None,
    ratio_clip: float | None = 1.0,
    **ends: Unpack[Ends],
) -> Any:
    """Return the one-step errors: δ_t = ρ_t (r_t + γ v_{t+1} - v_t).

    Args:
        reward: as in `returns`, as all that is not named here.
        value: `[T, B]` or `[T, B, ...]`, of the observation before each row.
        terminated: flags.
        discount: gamma.
        log_ratio: log-ratio of the policies.
        ratio_clip: limit of the ratio ρ.
        **ends: `bootstrap`, `truncated`, `final_value` and `valid`.
    """
    rows = checked_rows("deltas", reward, value, terminated, discount, ends)
    found = _deltas(rows)
    if log_ratio is not None:
        found = found * clipped_ratio("deltas", "ratio_clip", rows, log_ratio, ratio_clip)
    return rows.masked(found)


@refuses_unknown
def gae(
    reward: Any, value: Any, terminated: Any, *, discount: float, lam: float, **ends: Unpack[Ends]
) -> Any:
    """Return the generalised advantage estimate: A_t = δ_t + γ λ A_{t+1} within an episode.

    With λ = 0 it is `deltas`, with λ = 1 `returns` minus `value`.

    Args:
        reward: as in `returns`, as all that is not named here.
        value: `[T, B]` or `[T, B, ...]`, of the observation before each row.
        terminated: flags.
        discount: gamma.
        lam: λ, 0 to 1.
        **ends: `bootstrap`, `truncated`, `final_value` and `valid`.

    Source: Schulman et al. 2016, "High-dimensional continuous control using generalized
    advantage estimation", equation 16.
    """
    rows = checked_rows("gae", reward, value, terminated, discount, ends)
    return _gae(rows, finite_between("gae: lam", lam, 0.0, 1.0))


@refuses_unknown
def td_lambda(
    reward: Any, value: Any, terminated: Any, *, discount: float, lam: float, **ends: Unpack[Ends]
) -> Any:
    """Return the λ-return: G_t = r_t + γ ((1 - λ) v_{t+1} + λ G_{t+1}) within an episode.

    With λ = 0 it is `multistep` of one row, with λ = 1 `returns`.

    Args:
        reward: as in `returns`, as all that is not named here.
        value: `[T, B]` or `[T, B, ...]`, of the observation before each row.
        terminated: flags.
        discount: gamma.
        lam: λ, 0 to 1.
        **ends: `bootstrap`, `truncated`, `final_value` and `valid`.

    Source: Sutton and Barto 2018, "Reinforcement learning", equation 12.18.
    """
    rows = checked_rows("td_lambda", reward, value, terminated, discount, ends)
    # G_t - v_t obeys the recurrence of the advantages, so the λ-return is the value plus GAE.
    return rows.masked(rows.value + _gae(rows, finite_between("td_lambda: lam", lam, 0.0, 1.0)))


@refuses_unknown
def vtrace(
    reward: Any,
    value: Any,
    terminated: Any,
    *,
    discount: float,
    log_ratio: Any = None,
    ratio_clip: float | None = 1.0,
    trace_clip: float | None = 1.0,
    **ends: Unpack[Ends],
) -> Any:
    """Return the V-trace targets: v_t + A_t with A_t = ρ_t δ_t + γ c_t A_{t+1} within an episode.

    Without `log_ratio` (the policy that played is the one that is rated) it is `returns`.

    Args:
        reward: as in `returns`, as all that is not named here.
        value: `[T, B]` or `[T, B, ...]`, of the observation before each row.
        terminated: flags.
        discount: gamma.
        log_ratio: log-ratio of the policies.
        ratio_clip: limit of ρ_t = exp(log_ratio_t), or None.
        trace_clip: limit of c_t = exp(log_ratio_t), or None.
        **ends: `bootstrap`, `truncated`, `final_value` and `valid`.

    Source: Espeholt et al. 2018, "IMPALA", remark 1.
    """
    rows = checked_rows("vtrace", reward, value, terminated, discount, ends)
    step, decay = _deltas(rows), rows.discount
    if log_ratio is not None:
        step = step * clipped_ratio("vtrace", "ratio_clip", rows, log_ratio, ratio_clip)
        decay = decay * clipped_ratio("vtrace", "trace_clip", rows, log_ratio, trace_clip)
    # From 0 at the end of the batch: the last row's δ has the bootstrap value already.
    return rows.masked(rows.value + rows.fold(step, decay, rows.nothing))


def _deltas(rows: Rows) -> Any:
    # `following` is 0 after a termination, the final value after a truncation, and `bootstrap`
    # after the last row.
    return rows.reward + rows.discount * rows.following(rows.value) - rows.value


def _gae(rows: Rows, lam: float) -> Any:
    # From 0: the last row's δ has the bootstrap already.
    return rows.fold(_deltas(rows), rows.discount * lam, rows.nothing)


def normalized(advantage: Any, valid: Any = None, *, epsilon: float = 1e-6) -> Any:
    """Subtract the mean and divide by the standard deviation plus `epsilon`.

    A single advantage stays as it is: less its own mean it would be 0, and teach nothing.

    Args:
        advantage: `[T, B]` or `[T, B, ...]`; trailing axes are normalised one by one, as
            they belong to different agents.
        valid: `[T, B]` bool: only these rows count. The others are transformed alike.
        epsilon: keeps equal advantages finite.
    """
    convert = converter(advantage, valid)
    array = floating(convert(advantage))
    flat = array.reshape((-1, *array.shape[2:]))
    counted = flat if valid is None else flat[convert(valid).reshape(-1) != 0]
    if len(counted) < 2:
        return array
    # The population's deviation, in both libraries.
    mean = counted.mean(0)
    deviation = ((counted - mean) ** 2).mean(0) ** 0.5
    # Added to the deviation and not under the root, as the usual implementations of PPO do.
    return (array - mean) / (deviation + epsilon)


@refuses_unknown
def branch_returns(reward: Any, length: Any, rest: Any, *, discount: float) -> Any:
    """Return the returns of branches: G = sum_h γ^h r_h + γ^L rest.

    Args:
        reward: `[H, ...]`, array or tensor; 0 once a branch has ended.
        length: `[...]` int, L: steps that were taken.
        rest: `[...]`, worth of where the branch was cut; 0 where it terminated.
        discount: gamma.

    Returns:
        `[...]`, fresh.

    Source: Schulman et al. 2015, "Trust region policy optimization", equation 16, for the sum;
    the critic's part is that of an n-step return.
    """
    library, where = converter(reward, length, rest), "branch_returns"
    discount = finite_between(f"{where}: discount", discount, 0.0, 1.0)
    reward = checked_array(where, library, "reward", reward)
    length = checked_array(where, library, "length", length)
    rest = checked_array(where, library, "rest", rest)
    if not reward.ndim or not (reward.shape[1:] == length.shape == rest.shape):
        raise InvalidSamples(
            f"{where}: reward must be [H, ...], length and rest [...] of each branch; got "
            f"{tuple(reward.shape)}, {tuple(length.shape)} and {tuple(rest.shape)}."
        )
    # What follows is worth its value after L steps, also where a branch was shorter than H.
    total = discount**length * rest
    for h in range(len(reward)):
        total = total + discount**h * reward[h]
    return total


def forked_advantages(returned: Any) -> Any:
    """Return advantages of first actions: A_i = G_i - mean of the other G_j.

    Unbiased of the advantage of action i if the k first actions were drawn from the policy
    apart from each other, and G_i is unbiased of what action i is worth; common random numbers in
    all branches change only the variance: the baseline depends on the other actions, and on nothing
    that action i was drawn with.

    Args:
        returned: `[..., k]` returns of k >= 2 branches from each state, array or tensor.

    Returns:
        `[..., k]`, fresh.

    Source: Kool et al. 2019, "Buy 4 REINFORCE samples, get a baseline for free!", section 3, for
    the baseline; Schulman et al. 2015, section 5.2, for branches from one state and common random
    numbers ("vine").
    """
    where = "forked_advantages"
    returned = checked_array(where, converter(returned), "returned", returned)
    count = returned.shape[-1] if returned.ndim else 0
    if count < 2:
        raise InvalidSamples(
            f"{where}: returned must be [..., k] of k >= 2 branches; got {tuple(returned.shape)}. "
            "One branch has no other to be compared with."
        )
    xp = namespace_of(returned)
    mean = xp.sum(returned, -1) / count
    # The mean with G_i itself, scaled: G_i - mean of the others is that times k / (k - 1).
    return (returned - mean[..., None]) * (count / (count - 1))

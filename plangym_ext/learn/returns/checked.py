"""Arguments of the return functions, made to fit each other or refused."""

from __future__ import annotations

import math
from typing import Any

from plangym_ext.errors import InvalidOption, InvalidSamples
from plangym_ext.learn.returns.namespace import converter, floating, namespace_of
from plangym_ext.learn.returns.rows import Rows


def checked_rows(
    where: str,
    reward: Any,
    terminated: Any,
    *,
    gamma: float,
    value: Any = None,
    bootstrap: Any = 0.0,
    truncated: Any = None,
    final_value: Any = None,
    valid: Any = None,
) -> Rows:
    """Return the arguments as `Rows`, or say which of them is wrong.

    Args:
        where: name of the function that was called.
        reward: see `returns`, as all that follow.
        terminated: flags.
        gamma: discount.
        value: None for functions that need none; then it is all zeros.
        bootstrap: value behind the last row.
        truncated: flags, or None.
        final_value: required with `truncated`.
        valid: flags, or None.
    """
    share(where, "gamma", gamma)
    if (truncated is None) != (final_value is None):
        raise InvalidSamples(
            f"{where}: truncated and final_value must be passed together; got only "
            f"{'final_value' if truncated is None else 'truncated'}. A truncated row bootstraps "
            f"from the value of the observation it ended with, which is in no row of value; "
            f"pass 0.0 if it is worth nothing."
        )
    convert = converter(reward, value, bootstrap, terminated, truncated, final_value, valid)
    reward = floating(convert(reward))
    value = reward * 0 if value is None else floating(convert(value))
    xp = namespace_of(reward)
    ndim = max(reward.ndim, value.ndim)
    if min(reward.ndim, value.ndim) < 2 or reward.shape[:2] != value.shape[:2] or not len(reward):
        raise InvalidSamples(
            f"{where}: reward and value must be [T, B] or [T, B, ...] with T >= 1; got "
            f"{tuple(reward.shape)} and {tuple(value.shape)}. Add an axis for a single env."
        )
    reward, value = xp.broadcast_arrays(*_same_ndim(ndim, reward, value))
    dtype = xp.result_type(reward, value)
    shape = tuple(reward.shape)

    def flags(name: str, given: Any) -> Any:
        array = convert(given)
        if tuple(array.shape) != shape[: array.ndim] or array.ndim < 2:
            raise InvalidSamples(
                f"{where}: {name} must be {shape[:2]} flags, one per row; got "
                f"{tuple(array.shape)}. Pass one flag for every reward."
            )
        return _same_ndim(ndim, array if array.dtype == xp.bool else array != 0)[0]

    def numbers(name: str, given: Any, full: tuple[int, ...]) -> Any:
        array = floating(convert(given))
        if array.ndim == len(full) + 1 and array.shape[0] == 1:
            array = array[0]  # a bootstrap as a row of its own
        try:
            extended = _same_ndim(len(full), array)[0] if array.ndim else array
            return cast(xp.broadcast_to(extended, full))
        except (ValueError, RuntimeError) as error:
            raise InvalidSamples(
                f"{where}: {name} must be a number or {full}; got {tuple(array.shape)}."
            ) from error

    def cast(array: Any) -> Any:
        return array if array.dtype == dtype else xp.asarray(array, dtype=dtype)

    terminated = flags("terminated", terminated)
    if truncated is not None:
        truncated = flags("truncated", truncated) & ~terminated
        final_value = numbers("final_value", final_value, shape)
    return Rows(
        reward=cast(reward),
        value=cast(value),
        bootstrap=numbers("bootstrap", bootstrap, shape[1:]),
        terminated=terminated,
        truncated=truncated,
        final_value=final_value,
        valid=None if valid is None else flags("valid", valid),
        gamma=float(gamma),
    )


def share(where: str, name: str, given: float) -> float:
    """Return a number between 0 and 1, or refuse it."""
    if not 0 <= given <= 1:
        raise InvalidOption(f"{where}: {name} must lie between 0 and 1; got {given!r}.")
    return float(given)


def clipped_ratio(where: str, name: str, rows: Rows, log_ratio: Any, clip: float | None) -> Any:
    """Return min(exp(log_ratio), clip) in the shape of the rewards.

    Args:
        where: name of the function that was called.
        name: of the argument `clip`.
        rows: of the call.
        log_ratio: `[T, B]`: log-probability of the actions under the policy that is
            rated, minus that under the policy that played.
        clip: the largest ratio; None for no limit.
    """
    if clip is not None and not clip > 0:
        raise InvalidOption(f"{where}: {name} must be positive, or None for none; got {clip!r}.")
    xp = namespace_of(rows.reward)
    array = converter(rows.reward)(log_ratio)
    if tuple(array.shape) != tuple(rows.reward.shape[: array.ndim]) or array.ndim < 2:
        raise InvalidSamples(
            f"{where}: log_ratio must be {tuple(rows.reward.shape[:2])}, one per row; got "
            f"{tuple(array.shape)}. Sum it over the parts of an action."
        )
    ratio = xp.exp(_same_ndim(rows.reward.ndim, floating(array))[0])
    ratio = ratio if clip is None else xp.clip(ratio, None, math.inf if clip is None else clip)
    return xp.zeros_like(rows.reward) + ratio


def _same_ndim(ndim: int, *arrays: Any) -> list[Any]:
    """Return the arrays with axes of one element behind their own."""
    return [array.reshape(tuple(array.shape) + (1,) * (ndim - array.ndim)) for array in arrays]

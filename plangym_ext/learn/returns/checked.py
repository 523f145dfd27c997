"""Argument checks of the return functions."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, TypedDict, TypeVar

import numpy as np

from plangym_ext.core.numbers import finite_between
from plangym_ext.errors import InvalidOption, InvalidSamples, UnknownOption, suggestion

P = ParamSpec("P")
R = TypeVar("R")


class Ends(TypedDict, total=False):
    """Terminations, truncations, bootstrap values and valid rows; see `returns`."""

    bootstrap: Any
    truncated: Any
    final_value: Any
    valid: Any


def refuses_unknown(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that refuses unknown arguments and names the closest known one."""
    parameters = inspect.signature(function).parameters.values()
    known = [one.name for one in parameters if one.kind is not one.VAR_KEYWORD]
    if len(known) < len(parameters):
        known += Ends.__annotations__

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs:
            if name not in known:
                raise UnknownOption(
                    f"{function.__name__}: unknown argument {name!r}{suggestion(name, known)}"
                )
        return function(*args, **kwargs)

    return called


def checked_rows(
    where: str, reward: Any, value: Any, terminated: Any, discount: float, ends: Ends
) -> Rows:
    """Return the arguments as `Rows`; raise for a wrong one.

    Args:
        where: name of the function that was called.
        reward: see `returns`, as all that is not named here.
        value: of the observation before each row; None for functions that need none,
            which get zeros.
        terminated: flags.
        discount: gamma.
        ends: the others, by name.
    """
    bootstrap, valid = ends.get("bootstrap", 0.0), ends.get("valid")
    truncated, final_value = ends.get("truncated"), ends.get("final_value")
    discount = finite_between(f"{where}: discount", discount, 0.0, 1.0)
    if (truncated is None) != (final_value is None):
        raise InvalidSamples(
            f"{where}: truncated and final_value must be passed together; got only "
            f"{'final_value' if truncated is None else 'truncated'}. A truncated row bootstraps "
            f"from the value of the observation it ended with, which is in no row of value; "
            f"pass 0.0 if it is worth nothing."
        )
    # All in one library and on one device before anything is compared.
    library = converter(reward, value, bootstrap, terminated, truncated, final_value, valid)
    convert = functools.partial(checked_array, where, library)
    reward = floating(convert("reward", reward))
    zeros = namespace_of(reward).zeros_like
    value = zeros(reward) if value is None else floating(convert("value", value))
    dtype = namespace_of(reward).result_type(reward, value)
    form = _Form(where, convert, _shape(where, reward, value), dtype)
    reward = form.numbers("reward", reward, form.shape)
    value = form.numbers("value", value, form.shape)
    bootstrap = form.numbers("bootstrap", bootstrap, form.shape[1:])
    terminated = form.flags("terminated", terminated)
    # What is not to be read may be anything, and must not spoil a sum or raise a warning.
    if truncated is not None:
        # With both flags a row is terminated: nothing is bootstrapped.
        truncated = form.flags("truncated", truncated) & ~terminated
        final_value = form.numbers("final_value", final_value, form.shape)
        final_value = form.only(truncated, final_value)
    if valid is not None:
        valid = form.flags("valid", valid)
        reward, value = form.only(valid, reward), form.only(valid, value)
    return Rows(reward, value, bootstrap, terminated, truncated, final_value, valid, discount)


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
    # Written so that NaN is refused as well.
    if clip is not None and not (isinstance(clip, int | float | np.number) and clip > 0):
        raise InvalidOption(f"{where}: {name} must be positive, or None for none; got {clip!r}.")
    xp = namespace_of(rows.reward)
    shape = tuple(rows.reward.shape)
    convert = functools.partial(checked_array, where, converter(rows.reward))
    form = _Form(where, convert, shape, rows.reward.dtype)
    log_ratio = form.numbers("log_ratio", log_ratio, shape)
    # Before it is raised: the power may be more than a float can hold.
    return xp.exp(log_ratio if clip is None else xp.clip(log_ratio, None, math.log(clip)))


def checked_array(where: str, library: Callable[[Any], Any], name: str, given: Any) -> Any:
    """Return an argument as an array of numbers of the call's library, numpy or torch."""
    try:
        array = library(given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidSamples(f"{where}: {name} must be one array of numbers; {error}") from error
    if isinstance(array, np.ndarray) and array.dtype.kind not in "biuf":
        raise InvalidSamples(
            f"{where}: {name} must be one array of numbers; got {type(given).__name__} "
            f"({array.dtype})."
        )
    return array


class _Form(NamedTuple):
    """Required shape, dtype and library of the arguments of a call."""

    where: str
    convert: Callable[[str, Any], Any]
    shape: tuple[int, ...]  # (T, B, *K)
    dtype: Any

    def flags(self, name: str, given: Any) -> Any:
        """Return `[T, B]` flags, with axes of one element after them."""
        array = self.convert(name, given)
        if array.ndim < 2 or tuple(array.shape) != self.shape[: array.ndim]:
            raise InvalidSamples(
                f"{self.where}: {name} must be {self.shape[:2]} flags, one per row; got "
                f"{tuple(array.shape)}. Pass one flag for every reward."
            )
        flags = array if array.dtype == namespace_of(array).bool else array != 0
        return _widened(flags, len(self.shape))

    def numbers(self, name: str, given: Any, shape: tuple[int, ...]) -> Any:
        """Return one number, or an array of as many axes as `shape` or fewer, as `shape`."""
        array = self.convert(name, given)
        xp = namespace_of(array)
        if array.dtype != self.dtype:
            array = xp.asarray(array, dtype=self.dtype)
        if array.ndim == len(shape) + 1 and array.shape[0] == 1:
            array = array[0]  # a bootstrap as a row of its own
        if tuple(array.shape) == shape:
            return array
        try:
            return xp.broadcast_to(_widened(array, len(shape)) if array.ndim else array, shape)
        except (ValueError, RuntimeError) as error:
            raise InvalidSamples(
                f"{self.where}: {name} must be a number or {shape}; got {tuple(array.shape)}."
            ) from error

    def only(self, flags: Any, array: Any) -> Any:
        """Return the numbers where the flags are set, elsewhere 0."""
        return namespace_of(array).where(flags, array, 0.0)


def _shape(where: str, reward: Any, value: Any) -> tuple[int, ...]:
    """Return (T, B, *K), common to both."""
    ndim = max(reward.ndim, value.ndim)
    if min(reward.ndim, value.ndim) >= 2 and len(reward) and reward.shape[:2] == value.shape[:2]:
        # Rewards may have more axes than values, or fewer: both are widened at their ends.
        with contextlib.suppress(ValueError):
            return np.broadcast_shapes(*(_widened(array, ndim).shape for array in (reward, value)))
    raise InvalidSamples(
        f"{where}: reward and value must be [T, B] or [T, B, ...] with T >= 1; got "
        f"{tuple(reward.shape)} and {tuple(value.shape)}. Add an axis for a single env."
    )


def _widened(array: Any, ndim: int) -> Any:
    """Return the array with axes of one element after its own."""
    return array.reshape(tuple(array.shape) + (1,) * (ndim - array.ndim))


# Rows -------------------------------------------------------------------------


class Rows(NamedTuple):
    """T steps of B envs in one library and one floating dtype; see `checked_rows`.

    Rows that are not valid are skipped, as though they were not there: the row
    before one is followed by the next valid row, or by `bootstrap`.
    """

    reward: Any  # [T, B, *K]
    value: Any  # [T, B, *K]
    bootstrap: Any  # [B, *K]
    terminated: Any  # [T, B, *1] bool
    truncated: Any  # the same, False where terminated; None if nothing is
    final_value: Any  # [T, B, *K], read where truncated
    valid: Any  # [T, B, *1] bool; None if all are
    discount: float

    @property
    def ended(self) -> Any:
        """`[T, B, *1]` bool: no later row continues the episode."""
        return self.terminated if self.truncated is None else self.terminated | self.truncated

    @property
    def nothing(self) -> Any:
        """`[B, *K]` zeros: the value after the last row without a bootstrap."""
        return namespace_of(self.bootstrap).zeros_like(self.bootstrap)

    def following(self, array: Any) -> Any:
        """Return the value after each row's transition, `[T, B, *K]`.

        That is the next row of `array`, or `bootstrap` after the last, `final_value`
        where truncated and 0 where terminated.

        Args:
            array: `[T, B, *K]`, a value of the observation before each transition.
        """
        xp = namespace_of(array)
        if self.valid is not None:
            # A row that is skipped shows what the next valid one does.
            array = self._carried(array, self.bootstrap)
        later = xp.concatenate([array[1:], self.bootstrap[None]])
        if self.truncated is not None:
            later = xp.where(self.truncated, self.final_value, later)
        return xp.where(self.terminated, 0.0, later)

    def fold(self, step: Any, decay: Any, last: Any) -> Any:
        """Return x with x_t = step_t + decay_t x_{t+1} within each episode, 0 in skipped rows.

        Args:
            step: `[T, B, *K]`.
            decay: float, or `[T, B, *K]`; read only where the episode goes on.
            last: `[B, *K]`, x after the last row.
        """
        xp = namespace_of(step)
        decay = xp.full_like(step, decay) if isinstance(decay, float) else decay
        decay = xp.where(self.ended, 0.0, decay)
        if self.valid is None:
            return recurrence(step, decay, last)
        step, decay = self.masked(step), xp.where(self.valid, decay, 1.0)
        return self.masked(recurrence(step, decay, last))

    def masked(self, array: Any) -> Any:
        """Return the array with zeros in the rows that are skipped."""
        if self.valid is None:
            return array
        return namespace_of(array).where(self.valid, array, 0.0)

    def _carried(self, array: Any, last: Any) -> Any:
        """Return the array with every skipped row as the next valid one."""
        xp = namespace_of(array)
        return recurrence(self.masked(array), xp.where(self.valid, 0.0, xp.ones_like(array)), last)


def recurrence(step: Any, decay: Any, last: Any) -> Any:
    """Return x `[T, B, *K]` with x_t = step_t + decay_t x_{t+1} and x_T = `last`.

    Where the decay is 0 nothing of x_{t+1} is read, be it infinite or no number.
    Sums are carried in float64, except on a device and in half precision.

    Args:
        step: `[T, B, *K]` of a floating dtype.
        decay: the same shape.
        last: `[B, *K]`.
    """
    xp = namespace_of(step)
    if xp is np:
        return compiled_recurrence(step, decay, last)
    if step.device.type == "cpu" and step.dtype in (xp.float32, xp.float64):
        found = compiled_recurrence(step.numpy(), decay.numpy(), last.numpy())
        return xp.from_numpy(found)
    return stepwise_recurrence(xp, step, decay, last)


def compiled_recurrence(step: Any, decay: Any, last: Any) -> Any:
    """Compute `recurrence` of numpy arrays, in one compiled loop."""
    # Here and not above: the compiler takes half a second to import.
    from plangym_ext.learn.returns.kernels import backward

    # numpy cannot infer -1 of an array without elements.
    flat = (len(step), -1) if step.size else (len(step), 0)
    out = np.empty(step.shape, step.dtype)
    steps, decays = (np.ascontiguousarray(array).reshape(flat) for array in (step, decay))
    # A copy, which the loop writes to. In float64: sums of thousands of float32 rewards would lose
    # digits.
    carry = np.array(last, np.float64).reshape(-1)
    backward(steps, decays, carry, out.reshape(flat))
    return out


def stepwise_recurrence(xp: Any, step: Any, decay: Any, last: Any) -> Any:
    """Compute `recurrence` of tensors anywhere, one operation after the other."""
    out = xp.empty_like(step)
    for t in range(len(step) - 1, -1, -1):
        # Not 0 * x, as in the compiled loop.
        last = xp.where(decay[t] == 0, step[t], step[t] + decay[t] * last)
        out[t] = last
    return out


def namespace_of(*values: Any) -> Any:
    """Return the torch module if any of `values` is a tensor, else numpy.

    torch is looked up among the loaded modules: there is no tensor before it was imported.
    """
    torch: Any = sys.modules.get("torch")
    if torch is not None and any(isinstance(value, torch.Tensor) for value in values):
        return torch
    return np


def converter(*values: Any) -> Any:
    """Return a function that makes arrays of the library and device of `values`.

    Tensors come back detached: nothing here is differentiated.
    """
    xp = namespace_of(*values)
    if xp is np:
        return np.asarray
    # Arrays of numpy among tensors are brought to the first tensor's device.
    device = next(value.device for value in values if isinstance(value, xp.Tensor))
    return lambda value: xp.as_tensor(value, device=device).detach()


def floating(array: Any) -> Any:
    """Return the array in its floating dtype; arrays of other dtypes as float64.

    Of numpy's only two are kept: compiled loops know no other.
    """
    if namespace_of(array) is np:
        return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
    return array if array.is_floating_point() else array.double()

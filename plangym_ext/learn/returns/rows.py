"""Rows: arguments of the return functions in numpy or torch, and their backward recurrence."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np


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
    gamma: float

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
    """Return the array in its own floating dtype, or else in float64.

    Of numpy's only two are kept: compiled loops know no other.
    """
    if namespace_of(array) is np:
        return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
    return array if array.is_floating_point() else array.double()

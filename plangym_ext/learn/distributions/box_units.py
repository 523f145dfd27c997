"""Scaling between `Box` actions and units of [-1, 1]."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import numpy.typing as npt

from plangym_ext.errors import InvalidOption
from plangym_ext.learn.torch_extra import torch

#: What is as large as that bounds nothing: a number drawn beyond it would soon be infinite.
_LARGEST = 1e-3 * float(np.finfo(np.float32).max)


def _is_bound(bound: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which numbers bound actions."""
    found: npt.NDArray[np.bool_] = np.abs(bound.astype(np.float64)) < _LARGEST
    return found


@final
class BoxUnits:
    """Converts actions `[..., *act]` to D numbers `[..., D]`, and back.

    Numbers of an action without two finite bounds are taken as they are; the largest number of a
    float, which many envs have for "none", is no bound.

    Args:
        low: `[*act]`.
        high: `[*act]`.
        dtype: of the actions.

    Attributes:
        size: D.
        bounded: every number has two finite bounds.
        any_bound: some number has a finite bound.
    """

    def __init__(self, low: npt.NDArray[Any], high: npt.NDArray[Any], dtype: Any) -> None:
        self.low, self.high, self.dtype = low, high, np.dtype(dtype)
        self.shape, self.size = low.shape, int(np.prod(low.shape))
        # Equal bounds have no width to divide by: such numbers are taken as they are.
        finite = _is_bound(low) & _is_bound(high) & (high > low)
        self.bounded = bool(finite.all())
        self.any_bound = bool((_is_bound(low) | _is_bound(high)).any())
        # Infinite bounds come to NaN, of which `where` takes nothing.
        with np.errstate(over="ignore", invalid="ignore"):
            low64, high64 = low.astype(np.float64), high.astype(np.float64)
            self._middle = np.where(finite, (low64 + high64) / 2, 0.0)
            self._half = np.where(finite, (high64 - low64) / 2, 1.0)
        self._as_they_are = not self._middle.any() and bool((self._half == 1.0).all())
        self._tensors: dict[Any, tuple[Any, Any]] = {}

    def check_bounded(self, who: str, otherwise: str) -> None:
        """Refuse a space without two finite, distinct bounds for each number.

        Raises:
            InvalidOption: some number has not; the message says which, and why.
        """
        if self.bounded:
            return
        infinite = ~(_is_bound(self.low) & _is_bound(self.high))
        if infinite.any():
            raise InvalidOption(
                f"{who}: every number of an action must have two finite bounds; got low "
                f"{self.low.tolist()} and high {self.high.tolist()}. Wrap the env with "
                f"gymnasium.wrappers.RescaleAction or ClipAction, or {otherwise}."
            )
        fixed = np.flatnonzero(~(self.high > self.low)).tolist()
        raise InvalidOption(
            f"{who}: the low bound of a number must be below its high bound; numbers {fixed} of an "
            f"action can have no other value than {self.low.ravel()[fixed].tolist()}. Leave them "
            f"out with gymnasium.wrappers.TransformAction, or {otherwise}."
        )

    def actions(self, numbers: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
        """Return `[B, *act]` of `[B, D]`, not clipped."""
        values = numbers.reshape(-1, *self.shape)
        if not self._as_they_are:
            values = values * self._half + self._middle
        return values.astype(self.dtype)

    def scaled(self, actions: Any) -> npt.NDArray[np.float32]:
        """Return `[B, D]` float32 of `[B, *act]`."""
        numbers = (np.asarray(actions, np.float64) - self._middle) / self._half
        return numbers.reshape(len(actions), -1).astype(np.float32)

    def tensor_actions(self, numbers: Any) -> Any:
        """Return `[..., *act]` of tensors `[..., D]`, not clipped; gradients pass."""
        if not self._as_they_are:
            middle, half = self._constants(numbers)
            numbers = numbers * half + middle
        return numbers.reshape(*numbers.shape[:-1], *self.shape)

    def scaled_tensor(self, actions: Any) -> Any:
        """Return `[..., D]` float32 of tensors `[..., *act]`; gradients pass."""
        lead = actions.shape[: actions.ndim - len(self.shape)]
        numbers = actions.reshape(*lead, self.size).float()
        if self._as_they_are:
            return numbers
        middle, half = self._constants(numbers)
        return (numbers - middle) / half

    def _constants(self, like: Any) -> tuple[Any, Any]:
        """Return middle and half width as tensors `[D]`, made once per device and dtype."""
        key = like.device, like.dtype
        if key not in self._tensors:
            pair = (self._middle.ravel(), self._half.ravel())
            # Outside of inference mode, or they could not take part in learning later.
            with torch.inference_mode(False):
                middle, half = (torch.tensor(x, dtype=key[1], device=key[0]) for x in pair)
            self._tensors[key] = middle, half
        return self._tensors[key]

"""Deterministic tanh-bounded `Box` actions with exploration noise."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import numpy.typing as npt

from plangym_ext.learn.distributions.base import Distribution, Params
from plangym_ext.learn.distributions.gaussian import Gaussian
from plangym_ext.learn.distributions.noise import Noise
from plangym_ext.learn.torch_extra import torch


@final
class DeterministicActions(Distribution):
    """D numbers before tanh, which brings the actions between their bounds.

    What is drawn differs from them by normal noise, and is clipped into the bounds. As a
    distribution it is a Gaussian with means tanh(x) and deviations of 1, half the range; draw with
    the `temperature` that the noise is to have for a deviation. Targets are the Gaussian's own.

    Args:
        low: `[*act]`, of the space.
        high: `[*act]`.
        dtype: of the actions.

    Raises:
        InvalidOption: a number has no two finite bounds, one below the other.
    """

    clips = True

    def __init__(self, low: npt.NDArray[Any], high: npt.NDArray[Any], dtype: Any) -> None:
        self._gaussian = Gaussian(low, high, dtype)
        self.units = self._gaussian.units
        self.units.check_bounded("DeterministicActions", "leave deterministic at False")
        self.width = self.target_width = self.units.size

    def actions(self, params: Any) -> Any:
        """Return the actions without noise, tensors `[..., *act]`; gradients pass."""
        return self.units.tensor_actions(torch.tanh(params))

    def greedy(self, params: Params) -> Any:
        """Return the actions without noise, `[B, *act]`."""
        return self._gaussian.greedy(self._arrays(params))

    def draw(
        self,
        params: Params,
        noise: Noise,
        temperature: float = 1.0,
    ) -> Any:
        """Draw `[B, *act]`, not clipped; `temperature` is the deviation of the noise."""
        return self._gaussian.draw(self._arrays(params), noise, temperature)

    def clip(self, actions: Any) -> Any:
        """Return the actions within the bounds."""
        return self._gaussian.clip(actions)

    def log_prob(self, params: Any, actions: Any) -> Any:
        """Return `[...]`, summed over the numbers."""
        return self._gaussian.log_prob(self._tensors(params), actions)

    def entropy(self, params: Any) -> Any:
        """Return `[...]`, the same for all."""
        return self._gaussian.entropy(self._tensors(params))

    def kl(self, params: Any, others: Any) -> Any:
        """Return `[...]`, summed over the numbers."""
        return self._gaussian.kl(self._tensors(params), self._tensors(others))

    def rsample(self, params: Any, noise: Noise) -> Any:
        """Draw `[..., *act]`, not clipped."""
        return self._gaussian.rsample(self._tensors(params), noise)

    def encode(self, actions: Any) -> npt.NDArray[np.float32]:
        """Return `[T, D]` in units in which the bounds are -1 and 1."""
        return self._gaussian.encode(actions)

    def loss(self, params: Any, target: Any) -> Any:
        """Return `[B]`, the negative log-likelihood."""
        return self._gaussian.loss(self._tensors(params), target)

    def least_loss(self, params: Any, target: Any) -> Any:
        """Return `[B]`, the negative log-likelihood of the actions themselves."""
        return self._gaussian.least_loss(self._tensors(params), target)

    def _arrays(self, params: Params) -> npt.NDArray[np.float64]:
        """Return `[B, 2 D]`, what the Gaussian has for numbers."""
        means = np.tanh(np.asarray(params, np.float64))
        # The zeros are logarithms: deviations of 1, which the temperature scales.
        return np.concatenate([means, np.zeros_like(means)], axis=1)

    def _tensors(self, params: Any) -> Any:
        means = torch.tanh(params)
        return torch.cat([means, torch.zeros_like(means)], dim=-1)

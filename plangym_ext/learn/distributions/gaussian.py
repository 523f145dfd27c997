"""Diagonal Gaussian distribution over a `Box` action."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np
import numpy.typing as npt

from plangym_ext.learn.distributions.base import Distribution, Params
from plangym_ext.learn.distributions.box_units import BoxUnits
from plangym_ext.learn.distributions.limits import LOG_STD
from plangym_ext.learn.distributions.noise import Noise
from plangym_ext.learn.torch_extra import torch

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


@final
class Gaussian(Distribution):
    """Means, then logarithms of standard deviations, of D numbers each.

    Bounded actions are measured in units in which their bounds are -1 and 1, others as
    they are. Targets are actions in these units, `[T, D]`. What is drawn may be out of
    bounds; `clip` brings it back, and the likelihood is of what was drawn.

    Args:
        low: `[*act]`, of the space.
        high: `[*act]`.
        dtype: of the actions.
    """

    def __init__(self, low: npt.NDArray[Any], high: npt.NDArray[Any], dtype: Any) -> None:
        self.units = BoxUnits(low, high, dtype)
        self.clips = self.units.any_bound
        self.target_width = self.units.size
        self.width = 2 * self.target_width
        self.log_std_columns = tuple(range(self.target_width, self.width))

    def greedy(self, params: Params) -> Any:
        """Return the means, `[B, *act]`, within the bounds."""
        means = np.asarray(params, np.float64)[:, : self.target_width]
        return self.clip(self.units.actions(means))

    def draw(
        self,
        params: Params,
        noise: Noise,
        temperature: float = 1.0,
    ) -> Any:
        """Draw `[B, *act]`, not clipped; `temperature` scales the deviations."""
        return self.units.actions(normal_draw(params, noise, temperature))

    def clip(self, actions: Any) -> Any:
        """Return the actions within the bounds."""
        if not self.clips:
            return actions
        # np.clip takes twice as long.
        return np.minimum(np.maximum(actions, self.units.low), self.units.high)

    def log_prob(self, params: Any, actions: Any) -> Any:
        """Return `[...]`, summed over the numbers."""
        return normal_log_prob(params, self.units.scaled_tensor(actions))

    def entropy(self, params: Any) -> Any:
        """Return `[...]`, summed over the numbers."""
        _, log_std = mean_and_log_std(params)
        return (log_std + (0.5 + HALF_LOG_2PI)).sum(dim=-1)

    def kl(self, params: Any, others: Any) -> Any:
        """Return `[...]`, summed over the numbers."""
        return normal_kl(params, others)

    def rsample(self, params: Any, noise: Noise) -> Any:
        """Draw `[..., *act]`, not clipped."""
        return self.units.tensor_actions(normal_rsample(params, noise))

    def encode(self, actions: Any) -> npt.NDArray[np.float32]:
        """Return `[T, D]` in units in which the bounds are -1 and 1."""
        return self.units.scaled(actions)

    def loss(self, params: Any, target: Any) -> Any:
        """Return `[B]`, the negative log-likelihood."""
        return -normal_log_prob(params, target)

    def least_loss(self, params: Any, target: Any) -> Any:  # noqa: ARG002
        """Return `[B]`, the negative log-likelihood of the means themselves."""
        _, log_std = mean_and_log_std(params.detach())
        return (log_std + HALF_LOG_2PI).sum(dim=1)


def mean_and_log_std(params: Any) -> tuple[Any, Any]:
    """Return the halves of tensors `[..., 2 D]`, the second within `LOG_STD`."""
    # Clamped: the exponential of whatever a network puts out may be 0 or infinite.
    mean, log_std = params.chunk(2, dim=-1)
    return mean, log_std.clamp(*LOG_STD)


def normal_log_prob(params: Any, x: Any) -> Any:
    """Return `[...]`, the log density of tensors `[..., D]` in their own units."""
    mean, log_std = mean_and_log_std(params)
    error = (x - mean) * (-log_std).exp()
    # As few operations as can be: each takes as long as the numbers of a small batch.
    least = torch.addcmul(log_std, error, error, value=0.5).sum(dim=-1)
    return -HALF_LOG_2PI * mean.shape[-1] - least


def normal_kl(params: Any, others: Any) -> Any:
    """Return `[...]`, KL(params || others), summed over the numbers."""
    mean, log_std = mean_and_log_std(params)
    other_mean, other_log_std = mean_and_log_std(others)
    ratio = 2 * (log_std - other_log_std)
    error = (mean - other_mean) * (-other_log_std).exp()
    # expm1: for policies that are nearly alike, the two terms are nearly opposite.
    return 0.5 * (torch.expm1(ratio) - ratio + error**2).sum(dim=-1)


def normal_draw(params: Params, noise: Noise, temperature: float) -> npt.NDArray[np.float64]:
    """Draw arrays `[B, D]`, fresh; `temperature` scales the deviations."""
    numbers, size = np.asarray(params, np.float64), params.shape[1] // 2
    std = np.exp(np.minimum(np.maximum(numbers[:, size:], LOG_STD[0]), LOG_STD[1]))
    if temperature != 1.0:
        std *= temperature
    drawn: npt.NDArray[np.float64] = numbers[:, :size] + std * noise.normal(size)
    return drawn


def normal_rsample(params: Any, noise: Noise) -> Any:
    """Draw tensors `[..., D]`."""
    mean, log_std = mean_and_log_std(params)
    return mean + log_std.exp() * noise.normal(mean.shape[-1])

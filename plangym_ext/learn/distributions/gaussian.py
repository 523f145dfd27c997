"""Diagonal Gaussian distribution over a `Box` action."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np
import numpy.typing as npt

from plangym_ext.learn.distributions.base import LOG_STD, Distribution, Params
from plangym_ext.learn.distributions.box_units import BoxUnits
from plangym_ext.learn.distributions.noise import Noise
from plangym_ext.learn.torch_extra import functional, torch

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

    def draw(self, params: Params, noise: Noise, temperature: float = 1.0) -> Any:
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


# Gaussian distribution squashed by tanh into the bounds of a `Box` action -----


# Nodes of the quadrature of `entropy`.
_NODES = 32


@final
class SquashedGaussian(Distribution):
    """Means, then logarithms of standard deviations, of D numbers each, before tanh.

    The actions reach from bound to bound, whatever these are; likelihoods are measured in
    units in which they are -1 and 1. Targets are actions in these units, `[T, D]`.

    Args:
        low: `[*act]`, of the space.
        high: `[*act]`.
        dtype: of the actions.

    Raises:
        InvalidOption: a number has no two finite bounds, one below the other.
    """

    def __init__(self, low: npt.NDArray[Any], high: npt.NDArray[Any], dtype: Any) -> None:
        self.units = BoxUnits(low, high, dtype)
        self.units.check_bounded("SquashedGaussian", "use a plain Gaussian")
        self._plain = Gaussian(low, high, dtype)
        self.target_width = self.units.size
        self.width = 2 * self.target_width
        self.log_std_columns = tuple(range(self.target_width, self.width))
        nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
        self._nodes = torch.tensor(nodes, dtype=torch.float32)
        self._weights = torch.tensor(weights / weights.sum(), dtype=torch.float32)

    def greedy(self, params: Params) -> Any:
        """Return tanh of the means, `[B, *act]`, scaled to the bounds.

        It is the median, which SAC's evaluation plays; the density may be largest elsewhere.
        """
        return self._within(np.asarray(params, np.float64)[:, : self.target_width])

    def draw(self, params: Params, noise: Noise, temperature: float = 1.0) -> Any:
        """Draw `[B, *act]` within the bounds; `temperature` scales the deviations."""
        return self._within(normal_draw(params, noise, temperature))

    def log_prob(self, params: Any, actions: Any) -> Any:
        """Return `[...]`, summed over the numbers.

        Actions that rounding has put on a bound count as the nearest ones within.
        """
        numbers = self.units.scaled_tensor(actions)
        # atanh of 1 is infinite; this is the largest number below it.
        most = 1.0 - torch.finfo(numbers.dtype).eps
        x = torch.atanh(numbers.clamp(-most, most))
        # The change of variables: the density of tanh(x) is that of x over the slope of tanh.
        return normal_log_prob(params, x) - _log_slope(x).sum(dim=-1)

    def entropy(self, params: Any) -> Any:
        """Return `[...]`: the Gaussian's, plus the mean of tanh's log slope.

        The mean is by Gauss-Hermite quadrature with 32 nodes, which is off by less than
        0.001 per number for deviations up to 1, and 0.1 at the largest.
        """
        mean, log_std = mean_and_log_std(params)
        nodes, weights = self._nodes.to(mean), self._weights.to(mean)
        x = mean[..., None] + log_std.exp()[..., None] * nodes
        # E log(1 - tanh(x)^2): there is no closed form.
        slope = (_log_slope(x) * weights).sum(dim=-1)
        return self._plain.entropy(params) + slope.sum(dim=-1)

    def kl(self, params: Any, others: Any) -> Any:
        """Return KL of the Gaussians `[...]`; squashing both does not change it."""
        return normal_kl(params, others)

    def rsample(self, params: Any, noise: Noise) -> Any:
        return self.units.tensor_actions(torch.tanh(normal_rsample(params, noise)))

    def rsample_with_log_prob(self, params: Any, noise: Noise) -> tuple[Any, Any]:
        """Return draws and their log density, which is exact however near the bounds they are."""
        numbers, log_prob = self.numbers_with_log_prob(params, noise.normal(self.target_width))
        return self.units.tensor_actions(numbers), log_prob

    def numbers_with_log_prob(self, params: Any, drawn: Any) -> tuple[Any, Any]:
        """Return draws `[..., D]` in units of the bounds, and their log density `[...]`.

        Args:
            params: `[..., 2 D]`.
            drawn: `[..., D]`, of mean 0 and deviation 1.
        """
        mean, log_std = mean_and_log_std(params)
        # Not from x, whose distance from the mean in deviations is what was drawn.
        x = mean + log_std.exp() * drawn
        density = log_std + _log_slope(x) + (0.5 * drawn**2 + HALF_LOG_2PI)
        return torch.tanh(x), -density.sum(dim=-1)

    def encode(self, actions: Any) -> npt.NDArray[np.float32]:
        """Return `[T, D]` in units in which the bounds are -1 and 1."""
        return self.units.scaled(actions)

    def loss(self, params: Any, target: Any) -> Any:
        """Return `[B]`, the negative log-likelihood of the targets before tanh."""
        return -normal_log_prob(params, self._before(target))

    def least_loss(self, params: Any, target: Any) -> Any:
        """Return the lower bound of `loss`, `[B]`, where means equal the targets before tanh."""
        return self._plain.least_loss(params, target)

    @staticmethod
    def _before(target: Any) -> Any:
        # Targets on a bound would pull the mean to infinity; atanh(0.999) is 3.8.
        return torch.atanh(target.clamp(-0.999, 0.999))

    def _within(self, x: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
        actions = self.units.actions(np.tanh(x))
        # The cast to float32 may round past a bound.
        return np.clip(actions, self.units.low, self.units.high)


def _log_slope(x: Any) -> Any:
    """Return log(1 - tanh(x)²), which is finite for every x."""
    # 1 - tanh(x)^2 = 4 / (e^x + e^-x)^2; computed from tanh it would be 0, and its logarithm
    # infinite, from x = 9 on in float32.
    return 2.0 * (math.log(2.0) - x - functional.softplus(-2.0 * x))


# Deterministic tanh-bounded `Box` actions with exploration noise --------------


@final
class DeterministicActions(Distribution):
    """D numbers before tanh, which brings the actions between their bounds.

    Draws are these actions plus normal noise, clipped to the bounds. As a distribution it is a
    Gaussian with means tanh(x) and deviations of 1, half the range; draw with the `temperature`
    that the noise is to have for a deviation. Targets are the Gaussian's own.

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

    def draw(self, params: Params, noise: Noise, temperature: float = 1.0) -> Any:
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

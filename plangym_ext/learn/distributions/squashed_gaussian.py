"""Gaussian distribution squashed by tanh into the bounds of a `Box` action."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np
import numpy.typing as npt

from plangym_ext.learn.distributions.base import Distribution, Params
from plangym_ext.learn.distributions.box_units import BoxUnits
from plangym_ext.learn.distributions.gaussian import (
    HALF_LOG_2PI,
    Gaussian,
    mean_and_log_std,
    normal_draw,
    normal_kl,
    normal_log_prob,
    normal_rsample,
)
from plangym_ext.learn.distributions.noise import Noise
from plangym_ext.learn.torch_extra import functional, torch

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

    def draw(
        self,
        params: Params,
        noise: Noise,
        temperature: float = 1.0,
    ) -> Any:
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
        """Draw `[..., *act]`."""
        return self.units.tensor_actions(torch.tanh(normal_rsample(params, noise)))

    def rsample_with_log_prob(self, params: Any, noise: Noise) -> tuple[Any, Any]:
        """Return draws and their log density, which is exact however near the bounds they are."""
        mean, log_std = mean_and_log_std(params)
        # Not from x, whose distance from the mean in deviations is what was drawn.
        drawn = noise.normal(mean.shape[-1])
        x = mean + log_std.exp() * drawn
        density = log_std + _log_slope(x) + (0.5 * drawn**2 + HALF_LOG_2PI)
        log_prob = -density.sum(dim=-1)
        return self.units.tensor_actions(torch.tanh(x)), log_prob

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

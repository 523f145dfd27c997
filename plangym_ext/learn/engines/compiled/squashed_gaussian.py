"""Compiled sampling from a squashed Gaussian policy, with its gradient."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from plangym_ext.core.compiling.jit import kernel
from plangym_ext.learn.distributions.base import LOG_STD
from plangym_ext.learn.torch_extra import torch

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_LOG_2 = math.log(2.0)


class SquashedDraws:
    """Draws as `SquashedGaussian.rsample_with_log_prob` does, and brings gradients back."""

    def draw(self, params: Any, noise: Any) -> tuple[Any, Any]:
        """Return actions `[N, D]` in units of their bounds, and their log density `[N]`.

        Args:
            params: tensor `[N, 2 D]` float32.
            noise: tensor `[N, D]` float32, of mean 0 and deviation 1.
        """
        action, log_prob = np.empty(noise.shape, np.float32), np.empty(len(noise), np.float32)
        self._drawn = np.ascontiguousarray(params.numpy()), noise.numpy(), action
        draw(*self._drawn[:2], *LOG_STD, action, log_prob)
        return torch.from_numpy(action), torch.from_numpy(log_prob)

    def gradient(self, d_action: Any, d_log_prob: float) -> Any:
        """Return the gradient of `params`, `[N, 2 D]`, given those of the last draws."""
        params, noise, action = self._drawn
        d_params = np.empty_like(params)
        d_action = np.ascontiguousarray(d_action.numpy())
        draw_gradient(params, noise, *LOG_STD, action, d_action, d_log_prob, d_params)
        return torch.from_numpy(d_params)


@kernel
def draw(params: Any, noise: Any, least: float, most: float, action: Any, log_prob: Any) -> None:
    """Write actions in units in which their bounds are -1 and 1, and their log density.

    Args:
        params: `[N, 2 D]` float32, means and logarithms of deviations.
        noise: `[N, D]` float32, of mean 0 and deviation 1.
        least: of the logarithms of deviations.
        most: likewise.
        action: `[N, D]` float32, written.
        log_prob: `[N]` float32, written.

    As `SquashedGaussian.rsample_with_log_prob`.
    """
    rows, width = noise.shape
    for n in range(rows):
        density = 0.0
        for d in range(width):
            log_std = min(max(params[n, width + d], least), most)
            x = params[n, d] + math.exp(log_std) * noise[n, d]
            action[n, d] = math.tanh(x)
            # log(1 + exp(-2 x)), with an exponent that is never positive.
            softplus = max(-2.0 * x, 0.0) + math.log1p(math.exp(-abs(2.0 * x)))
            # log(1 - tanh(x)^2) in this form is finite where float32's tanh is 1 exactly.
            density += log_std + 2.0 * (_LOG_2 - x - softplus)
            density += 0.5 * noise[n, d] * noise[n, d] + _HALF_LOG_2PI
        log_prob[n] = -density


@kernel
def draw_gradient(
    params: Any,
    noise: Any,
    least: float,
    most: float,
    action: Any,
    d_action: Any,
    d_log_prob: float,
    d_params: Any,
) -> None:
    """Write the gradient of `params`, given those of what `draw` has written.

    Args:
        params: as for `draw`.
        noise: as for `draw`.
        least: as for `draw`.
        most: as for `draw`.
        action: `[N, D]`, what it has written.
        d_action: `[N, D]`, its gradient.
        d_log_prob: gradient of every log density.
        d_params: `[N, 2 D]` float32, written.
    """
    rows, width = noise.shape
    for n in range(rows):
        for d in range(width):
            a, log_std = action[n, d], params[n, width + d]
            # The log density has -log(1 - tanh(x)^2) in it, whose slope is 2 tanh(x).
            d_x = d_action[n, d] * (1.0 - a * a) + d_log_prob * 2.0 * a
            d_params[n, d] = d_x
            # As torch's clamp: beyond the bounds the deviation does not move, and has no gradient.
            within = least <= log_std <= most
            # By x = mean + exp(log_std) * noise, and by the -log_std of the density.
            slope = d_x * math.exp(log_std) * noise[n, d] - d_log_prob
            d_params[n, width + d] = slope if within else 0.0

"""A normal distribution for every number of a `Box` action."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt

from plangym_ext.learn.distributions.base import Distribution, Params, Rng

# Standard deviations between 1/150 and 7, in units in which actions are [-1, 1].
_LOG_STD = (-5.0, 2.0)


@final
class Gaussian(Distribution):
    """Means, then logarithms of standard deviations, of D numbers each.

    Bounded actions are measured in units in which their bounds are -1 and 1, others as
    they are. Targets are actions in these units, `[T, D]`.

    Args:
        low: `[*act]`, of the space.
        high: `[*act]`.
        dtype: of the actions.
    """

    def __init__(self, low: npt.NDArray[Any], high: npt.NDArray[Any], dtype: Any) -> None:
        self.low, self.high, self.dtype = low, high, np.dtype(dtype)
        bounded = np.isfinite(low) & np.isfinite(high) & (high > low)
        with np.errstate(over="ignore", invalid="ignore"):
            low64, high64 = low.astype(np.float64), high.astype(np.float64)
            self._middle = np.where(bounded, (low64 + high64) / 2, 0.0)
            self._half = np.where(bounded, (high64 - low64) / 2, 1.0)
        self.target_width = int(np.prod(low.shape))
        self.width = 2 * self.target_width

    def greedy(self, params: Params, legal: npt.NDArray[np.bool_] | None = None) -> Any:  # noqa: ARG002
        """Return the means, `[B, *act]`, within the bounds."""
        return self._actions(np.asarray(params, np.float64)[:, : self.target_width])

    def sample(
        self,
        params: Params,
        rngs: Sequence[Rng],
        legal: npt.NDArray[np.bool_] | None = None,  # noqa: ARG002
        temperature: float = 1.0,
    ) -> Any:
        """Draw `[B, *act]`, clipped to the bounds; `temperature` scales the deviations."""
        numbers = np.asarray(params, np.float64)
        mean, log_std = numbers[:, : self.target_width], numbers[:, self.target_width :]
        noise = np.stack([rng.standard_normal(self.target_width) for rng in rngs])
        return self._actions(mean + temperature * np.exp(np.clip(log_std, *_LOG_STD)) * noise)

    def encode(self, actions: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Return `[T, D]` in units in which the bounds are -1 and 1."""
        scaled = (np.asarray(actions, np.float64) - self._middle) / self._half
        return scaled.reshape(len(actions), -1).astype(np.float32)

    def loss(self, params: Any, target: Any, legal: Any = None) -> Any:  # noqa: ARG002
        """Return `[B]`, the negative log-likelihood."""
        mean, log_std = params[:, : self.target_width], params[:, self.target_width :]
        log_std = log_std.clamp(*_LOG_STD)
        error = (target - mean) * (-log_std).exp()
        return (0.5 * error**2 + log_std + 0.5 * math.log(2 * math.pi)).sum(dim=1)

    def least_loss(self, params: Any, target: Any) -> Any:  # noqa: ARG002
        """Return `[B]`, the negative log-likelihood of the means themselves."""
        log_std = params[:, self.target_width :].detach().clamp(*_LOG_STD)
        return (log_std + 0.5 * math.log(2 * math.pi)).sum(dim=1)

    def _actions(self, scaled: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
        """Bring `[B, D]` back to the space."""
        values = scaled.reshape(-1, *self.low.shape) * self._half + self._middle
        return np.clip(values, self.low, self.high).astype(self.dtype)

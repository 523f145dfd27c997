"""Bernoulli distribution per switch of a `MultiBinary` action."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import numpy.typing as npt

from plangym_ext.learn.distributions.base import Distribution, Params
from plangym_ext.learn.distributions.noise import Noise
from plangym_ext.learn.torch_extra import functional, torch


@final
class Bernoulli(Distribution):
    """Logits of being 1. Targets are probabilities of being 1.

    Args:
        shape: of one action.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.width = self.target_width = int(np.prod(shape))

    def greedy(self, params: Params) -> Any:
        """Return the more likely values `[B, *shape]` int8."""
        return self._actions(np.asarray(params) > 0)

    def draw(
        self,
        params: Params,
        noise: Noise,
        temperature: float = 1.0,
    ) -> Any:
        """Draw `[B, *shape]` int8."""
        # The sigmoid by tanh, which cannot overflow.
        logits = np.asarray(params, np.float64) / temperature
        return self._actions(noise.uniform(self.width) < 0.5 * (1.0 + np.tanh(0.5 * logits)))

    def log_prob(self, params: Any, actions: Any) -> Any:
        """Return `[...]`, summed over the switches."""
        return -self._cross_entropy(params, actions.reshape(params.shape).to(params.dtype))

    def entropy(self, params: Any) -> Any:
        """Return `[...]`, summed over the switches."""
        return self._cross_entropy(params, torch.sigmoid(params))

    def kl(self, params: Any, others: Any) -> Any:
        """Return `[...]`, summed over the switches."""
        # KL(p || q) = H(p, q) - H(p).
        return self._cross_entropy(others, torch.sigmoid(params)) - self.entropy(params)

    def rsample(self, params: Any, noise: Noise) -> Any:
        """Draw `[..., *shape]` int8, without gradients."""
        # In float64, as the numbers that it is compared with.
        ones = noise.uniform(self.width) < torch.sigmoid(params.detach().double())
        return ones.to(torch.int8).reshape(*params.shape[:-1], *self.shape)

    def encode(self, actions: Any) -> npt.NDArray[np.float32]:
        """Return `[T, D]` of zeros and ones."""
        return np.asarray(actions, np.float32).reshape(len(actions), -1)

    def loss(self, params: Any, target: Any) -> Any:
        """Return `[B]`, summed over the switches."""
        return self._cross_entropy(params, target)

    def least_loss(self, params: Any, target: Any) -> Any:  # noqa: ARG002
        """Return `[B]`, the entropy of the targets."""
        return (torch.special.entr(target) + torch.special.entr(1 - target)).sum(dim=-1)

    @staticmethod
    def _cross_entropy(logits: Any, ones: Any) -> Any:
        """Return `[...]`: minus the mean log probability where a share `ones` is 1."""
        # -y log p - (1 - y) log(1 - p), of logits: finite however sure the policy is.
        return (functional.softplus(logits) - ones * logits).sum(dim=-1)

    def _actions(self, ones: npt.NDArray[np.bool_]) -> npt.NDArray[np.int8]:
        return ones.astype(np.int8).reshape(-1, *self.shape)

"""Independent distributions of `MultiDiscrete` and `MultiBinary` actions."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import numpy.typing as npt

from plangym_ext.learn.distributions.base import Distribution, Params
from plangym_ext.learn.distributions.categorical import Categorical
from plangym_ext.learn.distributions.noise import Noise
from plangym_ext.learn.torch_extra import functional, torch


@final
class MultiCategorical(Distribution):
    """Logits of all parts side by side. Targets are probabilities, laid out alike."""

    def __init__(
        self, counts: npt.NDArray[np.integer[Any]], start: npt.NDArray[np.integer[Any]]
    ) -> None:
        self.shape = counts.shape
        pairs = zip(counts.ravel().tolist(), start.ravel().tolist(), strict=True)
        self.parts = [Categorical(n, origin) for n, origin in pairs]
        # `[K + 1]`: where the logits of each part begin, and where the last ones end.
        self.bounds = np.cumsum([0, *(part.width for part in self.parts)]).tolist()
        self.width = self.target_width = self.bounds[-1]

    def greedy(self, params: Params) -> Any:
        """Return `[B, *nvec.shape]` int64."""
        return self._joined([part.greedy(p) for part, p in self._split(params)])

    def draw(
        self,
        params: Params,
        noise: Noise,
        temperature: float = 1.0,
    ) -> Any:
        """Draw `[B, *nvec.shape]` int64, part by part."""
        # One call for all parts: each has a column of a row's numbers.
        uniform = noise.uniform(len(self.parts))
        parts = enumerate(self._split(np.asarray(params, np.float32)))
        return self._joined(
            [
                part.drawn(p, uniform[:, i : i + 1], temperature=temperature)
                for i, (part, p) in parts
            ]
        )

    def log_prob(self, params: Any, actions: Any) -> Any:
        """Return `[...]`, summed over the parts."""
        # `[..., K]`
        flat = actions.reshape(*params.shape[:-1], len(self.parts))
        parts = enumerate(self._split(params))
        return sum(part.log_prob(p, flat[..., i]) for i, (part, p) in parts)

    def entropy(self, params: Any) -> Any:
        """Return `[...]`, summed over the parts."""
        return sum(part.entropy(p) for part, p in self._split(params))

    def kl(self, params: Any, others: Any) -> Any:
        """Return `[...]`, summed over the parts."""
        pairs = zip(self._split(params), self._split(others), strict=True)
        return sum(part.kl(p, q) for (part, p), (_, q) in pairs)

    def rsample(self, params: Any, noise: Noise) -> Any:
        """Draw `[..., *nvec.shape]` int64, without gradients."""
        uniform = noise.uniform(len(self.parts))
        parts = enumerate(self._split(params))
        drawn = [part.rdrawn(p, uniform[..., i : i + 1]) for i, (part, p) in parts]
        return torch.stack(drawn, dim=-1).reshape(*params.shape[:-1], *self.shape)

    def encode(self, actions: Any) -> npt.NDArray[np.float32]:
        """Return one-hot rows of all parts side by side, `[T, sum(nvec)]`."""
        flat = np.asarray(actions).reshape(len(actions), -1)
        return np.concatenate(
            [part.encode(flat[:, i]) for i, part in enumerate(self.parts)], axis=1
        )

    def loss(self, params: Any, target: Any) -> Any:
        """Return `[B]`, summed over the parts."""
        pairs = zip(self._split(params), self._split(target), strict=True)
        return sum(part.loss(p, t) for (part, p), (_, t) in pairs)

    def least_loss(self, params: Any, target: Any) -> Any:  # noqa: ARG002
        """Return `[B]`, the entropy of the targets, of all parts together."""
        return torch.special.entr(target).sum(dim=1)

    def _split(self, params: Any) -> list[tuple[Categorical, Any]]:
        ends = zip(self.parts, self.bounds[:-1], self.bounds[1:], strict=True)
        return [(part, params[..., low:high]) for part, low, high in ends]

    def _joined(self, columns: list[Any]) -> Any:
        # `[B, K]`, in the shape of the space's array.
        return np.stack(columns, axis=1).reshape(-1, *self.shape)


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

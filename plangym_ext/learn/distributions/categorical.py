"""Categorical distribution over a `Discrete` action space."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import numpy.typing as npt

from plangym_ext.core.compiling.jit import allocating_kernel
from plangym_ext.learn.distributions.base import Distribution, Params, Parts
from plangym_ext.learn.distributions.noise import Noise
from plangym_ext.learn.torch_extra import functional, torch


@final
class Categorical(Distribution):
    """Logits; entry i is about action `start + i`. Targets are probabilities.

    Actions that are not legal are masked in the logits: see `masked`.
    """

    def __init__(self, n: int, start: int = 0) -> None:
        self.width = self.target_width = self.num_actions = n
        self.start = start

    def probabilities(self, params: Params) -> npt.NDArray[np.float32]:
        """Return softmax, `[B, A]` float32, fresh."""
        weights = _weights(np.asarray(params, np.float32))
        return weights / weights.sum(axis=1, keepdims=True)

    def greedy(self, params: Params) -> Any:
        """Return the first of the most likely actions, `[B]` int64."""
        return self.start + np.argmax(self.probabilities(params), axis=1)

    def draw(self, params: Params, noise: Noise, temperature: float = 1.0) -> Any:
        """Draw `[B]` int64 in proportion to probability**(1 / temperature)."""
        return self.drawn(np.asarray(params, np.float32), noise.uniform(), temperature)

    def drawn(
        self,
        logits: npt.NDArray[np.float32],
        uniform: npt.NDArray[np.float64],
        temperature: float = 1.0,
    ) -> Any:
        """Return `[B]` int64, one action for each number of `uniform` `[B, 1]`."""
        if temperature != 1.0:
            logits = logits / temperature
        index = np.empty(len(logits), np.int64)
        choose(
            np.ascontiguousarray(logits, np.float32),
            np.ascontiguousarray(uniform, np.float64),
            index,
        )
        return index + self.start if self.start else index

    def log_prob(self, params: Any, actions: Any) -> Any:
        # `gather` takes int64 alone; actions have the dtype of their space. Steps that were not
        # played have a 0, which need not be in the space, and do not count.
        index = (actions - self.start if self.start else actions).long().clamp(0, self.width - 1)
        logs = torch.log_softmax(params, -1)
        return logs.gather(-1, index.unsqueeze(-1)).squeeze(-1)

    def entropy(self, params: Any) -> Any:
        logs = functional.log_softmax(params, dim=-1)
        # Masked logits are finite: what is forbidden adds 0, and no NaN.
        return -(logs.exp() * logs).sum(dim=-1)

    def kl(self, params: Any, others: Any) -> Any:
        mine = functional.log_softmax(params, dim=-1)
        theirs = functional.log_softmax(others, dim=-1)
        return (mine.exp() * (mine - theirs)).sum(dim=-1)

    def rsample(self, params: Any, noise: Noise) -> Any:
        """Draw `[...]` int64, without gradients."""
        return self.rdrawn(params, noise.uniform())

    def rdrawn(self, params: Any, uniform: Any) -> Any:
        """Return `[...]` int64, one action for each number of the tensor `[..., 1]`."""
        reached = torch.softmax(params.detach().double(), dim=-1).cumsum(dim=-1)
        # Times the last sum, which rounding may keep from 1: else the index could be A.
        return self.start + (reached <= uniform * reached[..., -1:]).sum(dim=-1)

    def encode(self, actions: Any) -> npt.NDArray[np.float32]:
        """Return one-hot rows `[T, A]`."""
        # Not rows of a unit matrix, which would be `[A, A]`.
        rows = np.zeros((len(actions), self.width), np.float32)
        rows[np.arange(len(rows)), np.asarray(actions) - self.start] = 1.0
        return rows

    def loss(self, params: Any, target: Any) -> Any:
        """Return `[B]`: minus sum over actions of target * log probability."""
        logs = functional.log_softmax(params, dim=1)
        return -(target * logs).sum(dim=1)

    def least_loss(self, params: Any, target: Any) -> Any:  # noqa: ARG002
        """Return `[B]`, the entropy of the targets."""
        return torch.special.entr(target).sum(dim=1)


def _weights(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return numbers in proportion to the probabilities, `[B, A]`."""
    # The largest exponent of a row is 0, so none overflows.
    return np.exp(logits - np.maximum.reduce(logits, axis=1, keepdims=True))


@allocating_kernel
def choose(logits: Any, uniform: Any, index: Any) -> None:
    """Draw a column of each row, in proportion to its exponential; 0 if a number is NaN.

    Args:
        logits: `[B, A]` float32.
        uniform: `[B, 1]` float64 of [0, 1), which choose.
        index: `[B]` int64, written.
    """
    reached = np.empty(logits.shape[1])
    for row in range(len(index)):
        highest = logits[row, 0]
        for action in range(1, reached.size):
            highest = max(highest, logits[row, action])
        total = 0.0
        for action in range(reached.size):
            total += np.exp(logits[row, action] - highest)
            reached[action] = total
        # In float64 a number below 1 times the total is below the total, so that a last
        # action without a chance is never chosen.
        bound = uniform[row, 0] * total
        index[row] = 0
        for action in range(reached.size):
            if reached[action] > bound:
                index[row] = action
                break


# Independent distributions of `MultiDiscrete` and `MultiBinary` actions -------


@final
class MultiCategorical(Parts):
    """Logits of all parts side by side. Targets are probabilities, laid out alike."""

    def __init__(
        self, counts: npt.NDArray[np.integer[Any]], start: npt.NDArray[np.integer[Any]]
    ) -> None:
        self.shape = counts.shape
        pairs = zip(counts.ravel().tolist(), start.ravel().tolist(), strict=True)
        super().__init__([Categorical(n, origin) for n, origin in pairs])

    def greedy(self, params: Params) -> Any:
        """Return `[B, *nvec.shape]` int64."""
        return self._joined([part.greedy(p) for part, p in self._split(params)])

    def draw(self, params: Params, noise: Noise, temperature: float = 1.0) -> Any:
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

    def least_loss(self, params: Any, target: Any) -> Any:  # noqa: ARG002
        """Return `[B]`, the entropy of the targets, of all parts together."""
        return torch.special.entr(target).sum(dim=1)

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

    def draw(self, params: Params, noise: Noise, temperature: float = 1.0) -> Any:
        """Draw `[B, *shape]` int8."""
        # The sigmoid by tanh, which cannot overflow.
        logits = np.asarray(params, np.float64) / temperature
        return self._actions(noise.uniform(self.width) < 0.5 * (1.0 + np.tanh(0.5 * logits)))

    def log_prob(self, params: Any, actions: Any) -> Any:
        """Return `[...]`, summed over the switches."""
        return -self.loss(params, actions.reshape(params.shape).to(params.dtype))

    def entropy(self, params: Any) -> Any:
        """Return `[...]`, summed over the switches."""
        return self.loss(params, torch.sigmoid(params))

    def kl(self, params: Any, others: Any) -> Any:
        """Return `[...]`, summed over the switches."""
        # KL(p || q) = H(p, q) - H(p).
        return self.loss(others, torch.sigmoid(params)) - self.entropy(params)

    def rsample(self, params: Any, noise: Noise) -> Any:
        """Draw `[..., *shape]` int8, without gradients."""
        # In float64, as the numbers that it is compared with.
        ones = noise.uniform(self.width) < torch.sigmoid(params.detach().double())
        return ones.to(torch.int8).reshape(*params.shape[:-1], *self.shape)

    def encode(self, actions: Any) -> npt.NDArray[np.float32]:
        """Return `[T, D]` of zeros and ones."""
        return np.asarray(actions, np.float32).reshape(len(actions), -1)

    def loss(self, params: Any, target: Any) -> Any:
        """Return minus the mean log probability, `[...]`, summed over the switches."""
        # -y log p - (1 - y) log(1 - p), of logits: finite however sure the policy is.
        return (functional.softplus(params) - target * params).sum(dim=-1)

    def least_loss(self, params: Any, target: Any) -> Any:  # noqa: ARG002
        """Return `[B]`, the entropy of the targets."""
        return (torch.special.entr(target) + torch.special.entr(1 - target)).sum(dim=-1)

    def _actions(self, ones: npt.NDArray[np.bool_]) -> npt.NDArray[np.int8]:
        return ones.astype(np.int8).reshape(-1, *self.shape)

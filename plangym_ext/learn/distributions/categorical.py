"""A probability per action of a `Discrete` space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt

from plangym_ext.learn.distributions.base import Distribution, Params, Rng
from plangym_ext.learn.torch_extra import functional, torch


@final
class Categorical(Distribution):
    """Logits; entry i is about action `start + i`. Targets are probabilities."""

    def __init__(self, n: int, start: int = 0) -> None:
        self.width = self.target_width = self.num_actions = n
        self.start = start

    def probabilities(
        self, params: Params, legal: npt.NDArray[np.bool_] | None = None
    ) -> npt.NDArray[np.float32]:
        """Return softmax over the legal actions, `[B, A]` float32."""
        logits = np.asarray(params, np.float32)
        if legal is not None:
            # A row that allows nothing is not played from; it is treated as one that allows all.
            logits = np.where(legal | ~legal.any(axis=1, keepdims=True), logits, -np.inf)
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    def greedy(self, params: Params, legal: npt.NDArray[np.bool_] | None = None) -> Any:
        """Return the first of the most likely actions, `[B]` int64."""
        return self.start + np.argmax(self.probabilities(params, legal), axis=1)

    def sample(
        self,
        params: Params,
        rngs: Sequence[Rng],
        legal: npt.NDArray[np.bool_] | None = None,
        temperature: float = 1.0,
    ) -> Any:
        """Draw `[B]` int64 in proportion to probability**(1 / temperature)."""
        noise = np.stack([rng.gumbel(size=self.width) for rng in rngs])
        with np.errstate(divide="ignore"):
            logs = np.log(self.probabilities(params, legal))
        return self.start + np.argmax(logs + temperature * noise, axis=1)

    def encode(self, actions: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Return one-hot rows `[T, A]`."""
        return np.eye(self.width, dtype=np.float32)[np.asarray(actions) - self.start]

    def loss(self, params: Any, target: Any, legal: Any = None) -> Any:
        """Return `[B]`: minus sum over actions of target * log probability."""
        if legal is not None:
            # Finite, since 0 * -inf is no number; far enough down to have no weight.
            params = params.masked_fill(~legal & legal.any(dim=1, keepdim=True), -1e9)
        return -(target * functional.log_softmax(params, dim=1)).sum(dim=1)

    def least_loss(self, params: Any, target: Any) -> Any:  # noqa: ARG002
        """Return `[B]`, the entropy of the targets."""
        return torch.special.entr(target).sum(dim=1)

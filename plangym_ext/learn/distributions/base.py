"""Distribution: the interface of action distributions, and action masks on their numbers."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.learn.distributions.noise import Noise

Params = npt.NDArray[np.floating[Any]]


class Distribution(ABC):
    """Distribution over one action space, given P parameters per observation.

    Acting works on numpy arrays, learning on tensors, with one leading axis or two. Row i of
    a result depends on row i of the arguments alone.
    """

    #: P: numbers per observation that a policy head puts out.
    width: int
    #: Numbers per step of a policy target, see `encode`.
    target_width: int
    #: A of a `Discrete` space, None for any other.
    num_actions: int | None = None
    #: Whether draws can leave the space, so that `clip` changes what is drawn.
    clips: bool = False
    #: Which of the P numbers are logarithms of deviations, which may be free parameters.
    log_std_columns: tuple[int, ...] = ()

    # Acting ---------------------------------------------------------------------

    @abstractmethod
    def greedy(self, params: Params) -> Any:
        """Return the most likely actions, `[B, *act]`, fresh.

        Args:
            params: `[B, P]`.
        """

    def sample(self, params: Params, noise: Noise, temperature: float = 1.0) -> Any:
        """Draw actions of the space, `[B, *act]`; see `draw`."""
        return self.clip(self.draw(params, noise, temperature))

    @abstractmethod
    def draw(self, params: Params, noise: Noise, temperature: float = 1.0) -> Any:
        """Draw actions, `[B, *act]`, fresh, which `clip` brings into the space.

        Args:
            params: `[B, P]`.
            noise: random numbers of the B rows.
            temperature: draws in proportion to probability**(1 / temperature), or with
                deviations that are this times as large.
        """

    def clip(self, actions: Any) -> Any:
        """Return the actions of the space that are nearest to what `draw` returned."""
        return actions

    # Likelihoods ----------------------------------------------------------------

    @abstractmethod
    def log_prob(self, params: Any, actions: Any) -> Any:
        """Return log-probabilities `[...]` of actions as drawn, before clipping.

        Densities of bounded actions are those of actions scaled to [-1, 1]. So `-D` is the usual
        target of an entropy, whatever the bounds are.

        Args:
            params: tensor `[..., P]`.
            actions: tensors `[..., *act]`, nested as the space.
        """

    @abstractmethod
    def entropy(self, params: Any) -> Any:
        """Return `[...]`, the entropy, in the units of `log_prob`; arguments as there."""

    @abstractmethod
    def kl(self, params: Any, others: Any) -> Any:
        """Return `[...]`, KL(params || others): the mean of log(p / q) under p.

        Args:
            params: tensor `[..., P]`, of p.
            others: tensor `[..., P]`, of q.
        """

    @abstractmethod
    def rsample(self, params: Any, noise: Noise) -> Any:
        """Draw unclipped actions as tensors `[..., *act]`, with gradients to `params`.

        What is discrete passes none.

        Args:
            params: tensor `[..., P]`.
            noise: of tensors, such as `TorchNoise`, with the same leading axes.
        """

    def rsample_with_log_prob(self, params: Any, noise: Noise) -> tuple[Any, Any]:
        """Return `rsample` and its `log_prob`, both with gradients."""
        actions = self.rsample(params, noise)
        return actions, self.log_prob(params, actions)

    # Learning from searches -----------------------------------------------------

    @abstractmethod
    def encode(self, actions: Any) -> npt.NDArray[np.float32]:
        """Return the policy targets of given actions, `[T, target_width]`, fresh."""

    @abstractmethod
    def loss(self, params: Any, target: Any) -> Any:
        """Return `[B]`, the cross-entropy of tensors `[B, P]` to targets `[B, target_width]`.

        For Gaussians it is the negative log-likelihood. Its gradient pulls the policy
        towards the target.
        """

    @abstractmethod
    def least_loss(self, params: Any, target: Any) -> Any:
        """Return the lower bound of `loss` for these targets, `[B]`, without gradient.

        The entropy of target probabilities; the negative log-likelihood of a Gaussian's
        own mean, with the deviations as they are. `loss` minus this bound is never negative, and 0
        where the policy equals its target.
        """


class Parts(Distribution):
    """Abstract: independent parts, whose parameters and targets lie side by side."""

    def __init__(self, parts: Sequence[Distribution]) -> None:
        self.parts = parts
        #: `[K + 1]`: where the parameters, and the targets, of each part begin and the last end.
        self.bounds = _bounds([part.width for part in parts])
        self.target_bounds = _bounds([part.target_width for part in parts])
        self.width, self.target_width = self.bounds[-1], self.target_bounds[-1]

    def entropy(self, params: Any) -> Any:
        """Return `[...]`, summed over the parts."""
        return sum(part.entropy(p) for part, p in self._split(params))

    def kl(self, params: Any, others: Any) -> Any:
        """Return `[...]`, summed over the parts."""
        pairs = zip(self._split(params), self._split(others), strict=True)
        return sum(part.kl(p, q) for (part, p), (_, q) in pairs)

    def loss(self, params: Any, target: Any) -> Any:
        """Return `[B]`, summed over the parts."""
        return sum(part.loss(p, t) for part, p, t in self._with_targets(params, target))

    def least_loss(self, params: Any, target: Any) -> Any:
        """Return `[B]`, summed over the parts."""
        return sum(part.least_loss(p, t) for part, p, t in self._with_targets(params, target))

    def _split(self, params: Any) -> list[tuple[Any, Any]]:
        ends = zip(self.parts, self.bounds[:-1], self.bounds[1:], strict=True)
        return [(part, params[..., low:high]) for part, low, high in ends]

    def _with_targets(self, params: Any, target: Any) -> list[tuple[Any, Any, Any]]:
        ends = zip(
            self._split(params), self.target_bounds[:-1], self.target_bounds[1:], strict=True
        )
        return [(part, p, target[..., low:high]) for (part, p), low, high in ends]


def _bounds(widths: list[int]) -> list[int]:
    return list(itertools.accumulate(widths, initial=0))


#: Without weight after softmax, and finite: 0 * -inf is no number.
FORBIDDEN = -1e9


def masked(values: Any, legal: Any) -> Any:
    """Return logits or Q values, with those of illegal actions so low that none is played.

    Args:
        values: array or tensor `[..., A]`.
        legal: bool `[..., A]` of the same kind, which actions may be played; None: all. A row
            that allows nothing is not played from: it is treated as one that allows all.

    Returns:
        `[..., A]` of the dtype of `values`: fresh, or `values` itself if all are legal.
    """
    if legal is None:
        return values
    if isinstance(values, np.ndarray):
        allowed = legal | ~legal.any(axis=-1, keepdims=True)
        return np.where(allowed, values, values.dtype.type(FORBIDDEN))
    return values.masked_fill(~legal & legal.any(dim=-1, keepdim=True), FORBIDDEN)


# Numeric limits of distribution parameters. Needs the standard library only ---


#: Logarithms of standard deviations: between 1/150 and 7, in units in which actions are [-1, 1].
LOG_STD = (-5.0, 2.0)

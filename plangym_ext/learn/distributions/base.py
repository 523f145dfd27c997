"""The interface of action distributions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Params = npt.NDArray[np.floating[Any]]
Rng = np.random.Generator


class Distribution(ABC):
    """How P numbers per observation describe what to do in one action space.

    Acting works on numpy arrays, learning on tensors. Row i of a result depends on row
    i of the arguments alone.
    """

    #: P: numbers per observation that a policy head puts out.
    width: int
    #: Numbers per step of a policy target, see `encode`.
    target_width: int
    #: A of a `Discrete` space, None for any other.
    num_actions: int | None = None

    @abstractmethod
    def greedy(self, params: Params, legal: npt.NDArray[np.bool_] | None = None) -> Any:
        """Return the most likely actions, `[B, *act]`.

        Args:
            params: `[B, P]`.
            legal: `[B, A]`, only for Discrete spaces; None: all.
        """

    @abstractmethod
    def sample(
        self,
        params: Params,
        rngs: Sequence[Rng],
        legal: npt.NDArray[np.bool_] | None = None,
        temperature: float = 1.0,
    ) -> Any:
        """Draw actions, `[B, *act]`, each row with its own generator."""

    @abstractmethod
    def encode(self, actions: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Return `[T, target_width]`: the policy targets that mean "play these actions"."""

    @abstractmethod
    def loss(self, params: Any, target: Any, legal: Any = None) -> Any:
        """Return `[B]`, the cross-entropy of tensors `[B, P]` to targets `[B, target_width]`.

        For Gaussians it is the negative log-likelihood. Its gradient pulls the policy
        towards the target.
        """

    @abstractmethod
    def least_loss(self, params: Any, target: Any) -> Any:
        """Return `[B]`: what `loss` is at least for these targets, with no gradient.

        The entropy of target probabilities; the negative log-likelihood of a Gaussian's
        own mean, with the deviations as they are. What `loss` is above it is never negative,
        and 0 where the policy says what it is taught.
        """

"""Compiled losses and gradients of a policy and value network."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.learn.algorithms.flat_optimizer import FlatOptimizer
from plangym_ext.learn.algorithms.rollouts.gradients import LossTerms
from plangym_ext.learn.algorithms.rollouts.rollout import Rows
from plangym_ext.learn.compiled import policy_losses
from plangym_ext.learn.compiled.dense_network import DenseNetwork, is_dense
from plangym_ext.learn.distributions.categorical import Categorical
from plangym_ext.learn.distributions.gaussian import Gaussian
from plangym_ext.learn.distributions.masking import masked
from plangym_ext.learn.distributions.multi_categorical import MultiCategorical
from plangym_ext.learn.torch_extra import torch

Ndarray = npt.NDArray[Any]


class Batch(NamedTuple):
    """A minibatch of N steps, as arrays `[N, ...]`."""

    features: Ndarray  # [N, F] float32, what the first layers see
    action: Ndarray  # [N, K], as the kernels of the policy want it
    log_prob: Ndarray
    value: Ndarray
    advantage: Ndarray
    target: Ndarray  # of the value
    legal: Ndarray | None  # [N, A] bool, which actions could be played; None: all

    def take(self, index: Any) -> Batch:
        """Return some steps; `index` is an int64 tensor `[n]`."""
        rows = index.numpy()
        # An array in brackets takes twice as long.
        return Batch._make(None if leaf is None else leaf.take(rows, axis=0) for leaf in self)

    def part(self, start: int, stop: int) -> Batch:
        """Return some steps, as views."""
        return Batch._make(None if leaf is None else leaf[start:stop] for leaf in self)


class CompiledLosses:
    """Gradients of policy and value losses, of a network of dense layers.

    They are those of `losses.policies` by autograd, but for the last digits: sums are added in
    another order.

    Args:
        network: one that `can_compile`.
        optimizer: of all of its parameters; the gradient is left in its vector.
    """

    def __init__(self, network: Any, optimizer: FlatOptimizer) -> None:
        self._network = network
        self._dense = DenseNetwork(network, optimizer)
        distribution = network.distribution
        self._policy: Any = policy_losses.categorical
        # An array in any case: kernels have one type of argument. The Gaussian's looks at none.
        self._bounds = np.zeros(1, np.int64)
        if isinstance(distribution, Gaussian):
            self._policy = policy_losses.gaussian
        elif isinstance(distribution, MultiCategorical):
            self._bounds = np.array(distribution.bounds, np.int64)
        else:
            self._bounds = np.array([0, distribution.width], np.int64)

    def batch(self, rows: Rows) -> Batch:
        """Return N single steps as arrays; what is not learned of the network is applied."""
        with torch.no_grad():
            features = self._network.features(rows.inputs)
        return Batch(
            np.ascontiguousarray(features.numpy()),
            self._encoded(rows.action),
            rows.log_prob.numpy(),
            rows.value.numpy(),
            rows.advantage.numpy(),
            rows.target.numpy(),
            legal=None if rows.inputs.legal is None else rows.inputs.legal.numpy(),
        )

    def _encoded(self, action: Any) -> Ndarray:
        distribution = self._network.distribution
        if isinstance(distribution, Gaussian):
            return np.ascontiguousarray(distribution.units.scaled_tensor(action).numpy())
        # `[N, K]`, from 0 in each part, wherever its space begins.
        index = action.reshape(len(action), -1).long().numpy()
        parts = getattr(distribution, "parts", [distribution])
        return np.ascontiguousarray(index - [part.start for part in parts])

    def losses(self, part: Batch, terms: LossTerms) -> dict[str, float]:
        """Return the losses of some steps, and remember what `leave` needs."""
        params, value = self._dense.forward(part.features)
        # What may not be played has no chance, and so no gradient either.
        params = masked(params, part.legal)
        advantage = part.advantage
        if terms.normalize:
            # A copy: a minibatch is a view of rows that are the caller's.
            advantage = advantage.copy()
            policy_losses.standardize(advantage, 1e-6)
        d_params, d_value = np.empty_like(params), np.empty_like(value)
        # Kernels know no None: a negative limit is none.
        clip, value_clip = (-1.0 if c is None else c for c in (terms.clip, terms.value_clip))
        policy_loss, entropy, kl = self._policy(
            params,
            part.action,
            part.log_prob,
            advantage,
            clip,
            terms.entropy_weight,
            self._bounds,
            d_params,
        )
        value_loss = policy_losses.squared_error(
            value, part.value, part.target, value_clip, terms.value_weight, d_value
        )
        self._outwards = d_params, d_value
        loss = policy_loss + terms.value_weight * value_loss - terms.entropy_weight * entropy
        found = {
            "loss": loss,
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "entropy": entropy,
        }
        return found if terms.clip is None else found | {"kl": kl}

    def leave(self) -> None:
        """Leave the gradient with the optimiser; see `Gradients`."""
        self._dense.backward(*self._outwards)


def can_compile(network: Any) -> bool:
    """Return whether `CompiledLosses` supports a network."""
    known = (Categorical, MultiCategorical, Gaussian)
    return is_dense(network) and network.has_value and isinstance(network.distribution, known)

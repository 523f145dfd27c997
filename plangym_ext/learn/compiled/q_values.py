"""Compiled losses, gradients and updates of Q networks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.core.compiling.jit import kernel
from plangym_ext.learn.algorithms.flat_optimizer import FlatOptimizer
from plangym_ext.learn.compiled.dense_network import DenseHead, has_dense_layers
from plangym_ext.learn.torch_extra import nn


@kernel
def q_errors(
    q: Any, index: Any, target: Any, weight: Any, huber: bool, d_q: Any, errors: Any
) -> tuple[float, float]:
    """Write the gradient of the mean loss of the actions that were played, and their errors.

    Args:
        q: `[N, A]` float32.
        index: `[N]` int64, of the actions.
        target: `[N]` float32.
        weight: `[N]` float32, importance weights.
        huber: whether the loss grows with slope 1 from an error of 1; else it is half the
            squared error.
        d_q: `[N, A]` float32, written.
        errors: `[N]` float32, written: absolute errors.

    Returns:
        The mean loss, and the mean of the Q values.
    """
    count = len(index)
    loss = total = 0.0
    # Actions that were not played have no part in the loss.
    d_q[:] = 0
    for n in range(count):
        value = q[n, index[n]]
        error = value - target[n]
        size = abs(error)
        errors[n] = size
        total += value
        slope = error
        # NaN is not above 1: it takes the other branch, and shows in the loss.
        if huber and size > 1:
            slope = error / size
            loss += weight[n] * (size - 0.5)
        else:
            loss += weight[n] * 0.5 * size * size
        # A mean over the rows: weights are at most 1 as they come, and are not normalised here.
        d_q[n, index[n]] = weight[n] * slope / count
    return loss / count, total / count


Ndarray = npt.NDArray[Any]


class QLoss(NamedTuple):
    """The loss of N steps, with errors and Q values."""

    loss: float
    q: float  # mean, of the actions that were played
    errors: Ndarray  # [N] float32, absolute


class CompiledQ:
    """Q values of a network of dense layers, and their gradients.

    They are those of `losses.q_values` by autograd, but for the last digits: sums are
    added in another order.

    Args:
        network: one that `can_compile_q`.
        optimizer: of all of its parameters; weights are read in its vector, and the gradient
            is left there.
    """

    def __init__(self, network: Any, optimizer: FlatOptimizer) -> None:
        self._dense = DenseHead(network.body.dense, network.heads, optimizer)
        self._scale = np.float32(network.value_scale)

    def q(self, features: Ndarray) -> Ndarray:
        """Return `[N, A]` float32 of features `[N, F]` float32."""
        return self._dense.forward(features) * self._scale

    def learn(
        self, features: Ndarray, index: Ndarray, target: Ndarray, weight: Ndarray, *, huber: bool
    ) -> QLoss:
        """Leave the gradient of the mean loss with the optimiser; see `q_errors`."""
        q = self.q(features)
        d_q, errors = np.empty_like(q), np.empty(len(q), np.float32)
        loss, mean = q_errors(q, index, target, weight, huber, d_q, errors)
        # Else nothing is left: the caller looks at the loss first, and takes no step.
        if np.isfinite(loss):
            self._dense.backward(d_q * self._scale)
        return QLoss(loss, mean, errors)


def can_compile_q(network: Any) -> bool:
    """Return whether `CompiledQ` supports a network."""
    return (
        has_dense_layers(network)
        and type(network.heads) is nn.Linear
        # Q values alone: other heads would be columns of the same layer.
        and network.heads.out_features == network.distribution.num_actions
        and network.has_q
        and not network.has_value
    )

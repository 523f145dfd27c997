"""Engines of Q values: by autograd, or in compiled code."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from plangym_ext.learn.engines.flat_optimizer import FlatOptimizer
from plangym_ext.learn.losses.q_values import chosen, error_loss
from plangym_ext.learn.networks.quick_forward import shown
from plangym_ext.learn.torch_extra import torch


class Learned(NamedTuple):
    """Loss, Q values and errors of N steps, whose gradient is with the optimiser."""

    loss: Any  # scalar, without gradient
    q: Any  # mean, or [N], of the actions that were played, without gradient
    errors: Any  # [N] not negative, without gradient: priorities


class QRows(NamedTuple):
    """N steps with the targets of their actions' values, tensors or arrays."""

    obs: Any  # as the engine has them
    index: Any  # [N] int64, of the actions
    target: Any  # [N] float32
    weight: Any  # [N] float32; None: all are 1
    indices: Any  # [N] int64 array, of the replay


class QEngine:
    """Evaluates Q values and leaves the gradients of their errors; for any network.

    Args:
        network: of Q values.
        optimizer: of its parameters.
        asked: returns what calls a network, such as its compiled code.

    Attributes:
        together: most updates whose targets are computed at once.
        is_compiled: whether steps are taken in the optimiser's vector alone, which is written to
            the network before it is copied.
    """

    together: ClassVar[int] = 1
    is_compiled: ClassVar[bool] = False

    def __init__(self, network: Any, optimizer: FlatOptimizer, asked: Any) -> None:
        self._network, self._optimizer, self._asked = network, optimizer, asked

    def q(self, obs: Any) -> Any:
        """Return Q values `[N, A]` of the trained network."""
        return self._asked(self._network)(shown(obs))[0].q

    def rows(self, rows: QRows) -> QRows:
        """Convert rows of tensors to the form that `learn` takes."""
        return rows

    def learn(self, rows: QRows, kind: str) -> Learned:
        """Leave the gradient of `error_loss` with the optimiser."""
        value = chosen(self.q(rows.obs), rows.index)
        loss = error_loss(value, rows.target, kind, rows.weight)
        self._optimizer.differentiate(loss)
        value = value.detach()
        return Learned(loss.detach(), value, (rows.target - value).abs())


class CompiledQEngine(QEngine):
    """The engine for networks of dense layers on a CPU; `can_compile_q` holds.

    Gradients are those of autograd, but for the last digits: sums are added in another order.
    """

    together = 32
    is_compiled = True

    def __init__(self, network: Any, optimizer: FlatOptimizer) -> None:
        from plangym_ext.learn.engines.compiled.q_values import CompiledQ

        self._network, self._compiled = network, CompiledQ(network, optimizer)

    def q(self, obs: Any) -> Any:
        return torch.from_numpy(self._compiled.q(self._network.features(shown(obs)).numpy()))

    def rows(self, rows: QRows) -> QRows:
        """Return arrays, with features for observations."""
        features = self._network.features(shown(rows.obs)).contiguous().numpy()
        target = rows.target.numpy()
        weight = np.ones(len(target), np.float32) if rows.weight is None else rows.weight.numpy()
        return QRows(features, rows.index.numpy(), target, weight, rows.indices)

    def learn(self, rows: QRows, kind: str) -> Learned:
        """Leave the gradient with the optimiser; see `q_errors`."""
        arrays = rows.obs, rows.index, rows.target, rows.weight
        return Learned(*self._compiled.learn(*arrays, huber=kind == "huber"))


def q_engine(network: Any, optimizer: FlatOptimizer, asked: Any, *, compiled: bool) -> QEngine:
    """Return the fastest engine for a network; see `QEngine`."""
    if compiled:
        # Here and not above: numba is of no use to other networks.
        from plangym_ext.learn.engines.compiled.q_values import can_compile_q

        if can_compile_q(network):
            return CompiledQEngine(network, optimizer)
    return QEngine(network, optimizer, asked)

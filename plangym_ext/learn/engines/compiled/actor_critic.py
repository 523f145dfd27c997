"""Compiled losses and gradients of a policy and value network, with their kernels."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.core.compiling.jit import kernel, kernel_inline
from plangym_ext.learn.distributions.base import LOG_STD, masked
from plangym_ext.learn.distributions.categorical import Categorical, MultiCategorical
from plangym_ext.learn.distributions.gaussian import Gaussian
from plangym_ext.learn.engines.compiled.dense_network import DenseNetwork, is_dense
from plangym_ext.learn.engines.flat_optimizer import FlatOptimizer
from plangym_ext.learn.engines.policy_value import LossTerms
from plangym_ext.learn.engines.rows import Rows
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
        self._policy: Any = categorical
        # An array in any case: kernels have one type of argument. The Gaussian's looks at none.
        self._bounds = np.zeros(1, np.int64)
        if isinstance(distribution, Gaussian):
            self._policy = gaussian
        elif isinstance(distribution, MultiCategorical):
            self._bounds = np.array(distribution.bounds, np.int64)
        else:
            self._bounds = np.array([0, distribution.width], np.int64)

    def batch(self, rows: Rows) -> Batch:
        """Return N single steps as arrays, with the features that enter the dense layers."""
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
            standardize(advantage, 1e-6)
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
        value_loss = squared_error(
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


_LOW, _HIGH = LOG_STD
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


@kernel_inline
def _surrogate(
    log_prob: float, old_log_prob: float, advantage: float, clip: float
) -> tuple[float, float, float]:
    """Return the loss of a row, its gradient in log_prob, and the row's divergence."""
    # Gradients are in log_prob: d(-A log p) / d log p = -A.
    if clip < 0:
        return -advantage * log_prob, -advantage, 0.0
    log_ratio = log_prob - old_log_prob
    ratio = math.exp(log_ratio)
    plain = ratio * advantage
    clipped = min(max(ratio, 1 - clip), 1 + clip) * advantage
    # The estimator (r - 1) - log r, never negative (Schulman 2020, "Approximating KL divergence");
    # `expm1`, as r - 1 near 1 would lose all digits of float32.
    kl = math.expm1(log_ratio) - log_ratio
    # The minimum of the two is the plain one: d(-r A) / d log p = -r A. Where the clipped one is
    # lower it is a constant.
    if plain <= clipped:
        return -plain, -plain, kl
    return -clipped, 0.0, kl


@kernel
def categorical(
    params: Any,
    target: Any,
    old_log_prob: Any,
    advantage: Any,
    clip: float,
    entropy_weight: float,
    bounds: Any,
    d_params: Any,
) -> tuple[float, float, float]:
    """Write the gradient of a policy loss, with logits of one or more discrete actions.

    Args:
        params: `[N, P]` float32, logits of all parts side by side.
        target: `[N, K]` int64, the number of the action in each part.
        old_log_prob: `[N]` float32.
        advantage: `[N]` float32.
        clip: of `clipped_policy_loss`; negative: the loss is `policy_gradient_loss`.
        entropy_weight: of the mean entropy, which is subtracted.
        bounds: `[K + 1]` int64, where the parts begin and end.
        d_params: `[N, P]` float32, written.

    Returns:
        Means of the policy loss, of the entropy, and of `approximate_kl`.
    """
    rows, loss, entropies, moved = len(params), 0.0, 0.0, 0.0
    for n in range(rows):
        log_prob = 0.0
        for k in range(len(bounds) - 1):
            # The greatest logit is taken out first: `exp` of what is left is at most 1.
            most, total = -np.inf, 0.0
            for p in range(bounds[k], bounds[k + 1]):
                most = max(most, params[n, p])
            for p in range(bounds[k], bounds[k + 1]):
                total += math.exp(params[n, p] - most)
            norm = most + math.log(total)
            for p in range(bounds[k], bounds[k + 1]):
                d_params[n, p] = params[n, p] - norm  # its logarithm, until below
            log_prob += params[n, bounds[k] + target[n, k]] - norm
        found, slope, kl = _surrogate(log_prob, old_log_prob[n], advantage[n], clip)
        loss, moved = loss + found, moved + kl
        for k in range(len(bounds) - 1):
            entropy = 0.0
            for p in range(bounds[k], bounds[k + 1]):
                entropy -= math.exp(d_params[n, p]) * d_params[n, p]
            for p in range(bounds[k], bounds[k + 1]):
                log = d_params[n, p]
                chance = math.exp(log)
                chosen = 1.0 if p == bounds[k] + target[n, k] else 0.0
                # d log p_k / d logit_p is [p = k] - chance_p; d(-H) / d logit_p is chance_p (log
                # chance_p + H).
                gradient = slope * (chosen - chance) + entropy_weight * chance * (log + entropy)
                d_params[n, p] = gradient / rows
            entropies += entropy
    return loss / rows, entropies / rows, moved / rows


@kernel
def gaussian(
    params: Any,
    target: Any,
    old_log_prob: Any,
    advantage: Any,
    clip: float,
    entropy_weight: float,
    bounds: Any,  # noqa: ARG001 - as of `categorical`
    d_params: Any,
) -> tuple[float, float, float]:
    """Write the gradient of a policy loss, with D means and log deviations.

    Args:
        params: `[N, 2 D]` float32.
        target: `[N, D]` float32, actions in the units of the means.
        old_log_prob: see `categorical`, as all that follows.
        advantage: `[N]`.
        clip: a number.
        entropy_weight: a number.
        bounds: not looked at.
        d_params: `[N, 2 D]` float32, written.
    """
    rows, loss, entropies, moved = len(params), 0.0, 0.0, 0.0
    size = target.shape[1]
    for n in range(rows):
        log_prob = 0.0
        for d in range(size):
            log_std = min(max(params[n, size + d], _LOW), _HIGH)
            error = (target[n, d] - params[n, d]) * math.exp(-log_std)
            log_prob -= 0.5 * error * error + log_std + _HALF_LOG_2PI
        found, slope, kl = _surrogate(log_prob, old_log_prob[n], advantage[n], clip)
        loss, moved = loss + found, moved + kl
        for d in range(size):
            log_std = min(max(params[n, size + d], _LOW), _HIGH)
            narrow = math.exp(-log_std)
            error = (target[n, d] - params[n, d]) * narrow
            # d log p / d mean = error / std, d log p / d log_std = error^2 - 1; the entropy grows
            # by 1 with each log_std.
            d_params[n, d] = slope * error * narrow / rows
            # At a bound the clipped deviation does not follow the parameter, as `clamp` in torch.
            inside = log_std == params[n, size + d]
            d_params[n, size + d] = (
                (slope * (error * error - 1) - entropy_weight) / rows if inside else 0.0
            )
            entropies += log_std + 0.5 + _HALF_LOG_2PI
    return loss / rows, entropies / rows, moved / rows


@kernel
def squared_error(
    value: Any, old_value: Any, target: Any, clip: float, weight: float, d_value: Any
) -> float:
    """Write the gradient of a value loss.

    Args:
        value: `[N, 1]` float32.
        old_value: `[N]` float32.
        target: `[N]` float32.
        clip: of `clipped_value_loss`; negative: the loss is `value_loss`.
        weight: of the loss in the gradient.
        d_value: `[N, 1]` float32, written.

    Returns:
        The loss.
    """
    rows, loss = len(value), 0.0
    for n in range(rows):
        error, passes = value[n, 0] - target[n], 1.0
        if clip >= 0:
            moved = value[n, 0] - old_value[n]
            near = old_value[n] + min(max(moved, -clip), clip) - target[n]
            # The greater of the two losses, so a value never gains by moving far (Schulman et al.
            # 2017, PPO's code).
            if near * near > error * error:
                error, passes = near, 1.0 if -clip <= moved <= clip else 0.0
        loss += error * error
        d_value[n, 0] = 2 * weight * passes * error / rows
    return loss / rows


@kernel
def standardize(advantage: Any, epsilon: float) -> None:
    """Normalise `[N]` to mean 0 and deviation 1 in place, as `normalized` does."""
    if len(advantage) < 2:
        return
    mean, squares = 0.0, 0.0
    for n in range(len(advantage)):
        mean += advantage[n]
    mean /= len(advantage)
    for n in range(len(advantage)):
        # A second pass: the difference of two large sums would cancel. Divided by N, not N - 1, as
        # `normalized` does.
        squares += (advantage[n] - mean) ** 2
    scale = 1 / (math.sqrt(squares / len(advantage)) + epsilon)
    for n in range(len(advantage)):
        advantage[n] = (advantage[n] - mean) * scale

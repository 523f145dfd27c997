"""VectorSteps: compiled optimisers with their moments, for small networks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from plangym_ext.core.compiling.jit import kernel
from plangym_ext.learn.torch_extra import torch

#: What each optimiser remembers of a vector, by torch's names.
_MOST_STEPS = 1 << 53
_MEMORY = {
    "adam": ("exp_avg", "exp_avg_sq"),
    "adamw": ("exp_avg", "exp_avg_sq"),
    "rmsprop": ("square_avg",),
    "sgd": ("momentum_buffer",),
}
_BETAS, _ALPHA, _MOMENTUM, _EPSILON = (0.9, 0.999), 0.99, 0.9, 1e-8


class VectorSteps:
    """Steps vectors of weights as torch's optimiser of a name does, with its defaults.

    To make one of torch's optimisers imports a second and a half of modules, and each step of
    it takes 100 us beside what it computes.

    Args:
        kind: name of the optimiser.
        vectors: float32 tensors on the CPU, with gradients.
        decays: weight decay of each.
        epsilon: of the optimiser.
        betas: of adam and adamw.
    """

    def __init__(
        self,
        kind: str,
        vectors: list[Any],
        decays: list[float],
        epsilon: float = _EPSILON,
        betas: tuple[float, float] = _BETAS,
    ) -> None:
        self._kind, self._decays, self._epsilon, self._betas = kind, decays, epsilon, betas
        self._vectors = vectors
        #: Made when they are first needed: it takes as long as a step to make them.
        self._arrays: list[tuple[Any, Any]] | None = None
        self._count = 0
        self._memory = [[np.zeros(v.shape, np.float32) for _ in _MEMORY[kind]] for v in vectors]

    def __getstate__(self) -> dict[str, Any]:
        """Return what is copied: arrays on the vectors of a copy are its own."""
        return {**self.__dict__, "_arrays": None}

    def _pairs(self) -> list[tuple[Any, Any]]:
        """Return weights and gradient of each vector, arrays on their memory."""
        if self._arrays is None:
            self._arrays = [(v.detach().numpy(), v.grad.numpy()) for v in self._vectors]
        return self._arrays

    def set_decay(self, decay: float) -> None:
        """Set the weight decay of the first vector."""
        self._decays[0] = decay

    def norm(self) -> float:
        """Return the length of the gradient of all vectors."""
        with np.errstate(over="ignore"):  # an infinite length is told, and no step taken
            return float(np.sqrt(sum(float(np.dot(g, g)) for _, g in self._pairs())))

    def step(self, rate: float, scale: float) -> None:
        """Take one step down the gradient times `scale`."""
        self._count += 1
        parts = zip(self._pairs(), self._memory, self._decays, strict=True)
        for (weights, gradient), memory, decay in parts:
            if self._kind == "rmsprop":
                rmsprop(weights, gradient, memory[0], scale, rate, _ALPHA, self._epsilon, decay)
            elif self._kind == "sgd":
                begins = self._count == 1
                sgd(weights, gradient, memory[0], begins, scale, rate, _MOMENTUM, decay)
            else:
                size = rate, *self._betas, self._epsilon, decay
                decoupled = self._kind == "adamw"
                first, second = memory
                adam(weights, gradient, first, second, self._count, scale, *size, decoupled)

    def state_dict(self) -> dict[int, dict[str, Any]]:
        """Return the moments by number of the vector, as torch's optimisers do."""
        if not self._count:
            return {}
        found: dict[int, dict[str, Any]] = {}
        for k, memory in enumerate(self._memory):
            # torch's SGD counts no steps.
            found[k] = (
                {}
                if self._kind == "sgd"
                else {"step": torch.tensor(float(self._count), dtype=torch.float32)}
            )
            tensors = map(torch.from_numpy, memory)
            found[k] |= dict(zip(_MEMORY[self._kind], tensors, strict=True))
        return found

    def load_state_dict(self, state: Mapping[Any, Any]) -> None:
        """Continue from saved moments; without any, from zeros."""
        self._count = 0
        for k, memory in enumerate(self._memory):
            known = state.get(k)
            for array, name in zip(memory, _MEMORY[self._kind], strict=True):
                array[:] = 0 if known is None else np.asarray(known[name])
            if known is not None:
                count = float(known.get("step", 2))  # of SGD: there were steps, at least
                if not 0 <= count < _MOST_STEPS:
                    raise ValueError(f"an optimiser must have taken 0 to 2**53 steps; got {count}")
                self._count = int(count)


@kernel
def adam(
    weights: Any,
    gradient: Any,
    mean: Any,
    square: Any,
    count: int,
    scale: float,
    rate: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    decay: float,
    decoupled: bool,
) -> None:
    """Take one step of Adam, or of AdamW.

    Source: Kingma & Ba 2015, "Adam", algorithm 1; Loshchilov & Hutter 2019, "Decoupled weight
    decay regularization".

    Args:
        weights: `[N]` float32, changed.
        gradient: `[N]` float32.
        mean: `[N]` float32, changed: the running mean of gradients.
        square: `[N]` float32, changed: that of their squares.
        count: how many steps there are with this one.
        scale: the gradient is multiplied by.
        rate: learning rate.
        beta1: of the running mean.
        beta2: of that of the squares.
        epsilon: added to the root of the squares.
        decay: of the weights.
        decoupled: whether weights decay by themselves, as in AdamW, or by the gradient.
    """
    # Numbers of the type of the weights: with a Python float every product would be made in
    # float64, with other roundings than torch's.
    one = weights.dtype.type(1)
    # The corrections of both means for their start at 0, once for all weights and in float64:
    # beta2**count is near 1 for many steps.
    size = weights.dtype.type(rate / (1 - beta1**count))
    root = weights.dtype.type(1 / math.sqrt(1 - beta2**count))
    b1, b2 = weights.dtype.type(beta1), weights.dtype.type(beta2)
    eps, factor = weights.dtype.type(epsilon), weights.dtype.type(scale)
    pull = weights.dtype.type(0 if decoupled else decay)
    # AdamW shrinks the weight itself, before the step; else the decay is a part of the gradient and
    # is divided by the root as that is.
    keep = weights.dtype.type(1 - rate * decay if decoupled else 1)
    for n in range(weights.size):
        weight = weights[n] * keep
        slope = gradient[n] * factor + pull * weight
        mean[n] = b1 * mean[n] + (one - b1) * slope
        square[n] = b2 * square[n] + (one - b2) * slope * slope
        # Epsilon is added to the corrected root, as in the paper's algorithm 1 and in torch.
        weights[n] = weight - size * mean[n] / (math.sqrt(square[n]) * root + eps)


@kernel
def rmsprop(
    weights: Any,
    gradient: Any,
    square: Any,
    scale: float,
    rate: float,
    alpha: float,
    epsilon: float,
    decay: float,
) -> None:
    """Take one step of RMSprop; arguments as of `adam`, `alpha` of the mean of the squares.

    Source: Tieleman & Hinton 2012, lecture 6.5 of "Neural networks for machine learning".
    """
    one, kept = weights.dtype.type(1), weights.dtype.type(alpha)
    eps, factor = weights.dtype.type(epsilon), weights.dtype.type(scale)
    size, pull = weights.dtype.type(rate), weights.dtype.type(decay)
    for n in range(weights.size):
        slope = gradient[n] * factor + pull * weights[n]
        square[n] = kept * square[n] + (one - kept) * slope * slope
        # Epsilon outside of the root, as in torch; some others have it inside.
        weights[n] -= size * slope / (math.sqrt(square[n]) + eps)


@kernel
def sgd(
    weights: Any,
    gradient: Any,
    speed: Any,
    first: bool,
    scale: float,
    rate: float,
    momentum: float,
    decay: float,
) -> None:
    """Take one step of gradient descent with momentum; arguments as of `adam`.

    Args:
        weights: as there.
        gradient: as there.
        speed: `[N]` float32, changed: the gradients, those before times `momentum`.
        first: whether there is no speed yet.
        scale: as there.
        rate: as there.
        momentum: of the speed.
        decay: as there.
    """
    factor, pull = weights.dtype.type(scale), weights.dtype.type(decay)
    # The first speed is the gradient, as in torch, and not a share of one that was never made.
    size, kept = weights.dtype.type(rate), weights.dtype.type(0 if first else momentum)
    for n in range(weights.size):
        speed[n] = kept * speed[n] + gradient[n] * factor + pull * weights[n]
        weights[n] -= size * speed[n]

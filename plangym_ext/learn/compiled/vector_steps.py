"""VectorSteps: compiled optimiser with its moments, for small networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from plangym_ext.learn.compiled import optimizers
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
    """

    def __init__(
        self, kind: str, vectors: list[Any], decays: list[float], epsilon: float = _EPSILON
    ) -> None:
        self._kind, self._decays, self._epsilon = kind, decays, epsilon
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
                optimizers.rmsprop(
                    weights, gradient, memory[0], scale, rate, _ALPHA, self._epsilon, decay
                )
            elif self._kind == "sgd":
                begins = self._count == 1
                optimizers.sgd(weights, gradient, memory[0], begins, scale, rate, _MOMENTUM, decay)
            else:
                size = rate, *_BETAS, self._epsilon, decay
                decoupled = self._kind == "adamw"
                first, second = memory
                optimizers.adam(
                    weights, gradient, first, second, self._count, scale, *size, decoupled
                )

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

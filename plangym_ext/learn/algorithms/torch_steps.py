"""Steps of torch's own optimisers, of vectors that all parameters are joined into."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

from plangym_ext.learn.trainers.optimizers import OptimizerConfig, load_moments, optimizer_of


class TorchSteps:
    """Steps of torch's optimiser of vectors; made when it is first needed, which takes a while.

    Args:
        groups: with "params" and "weight_decay".
        config: name and learning rate.
        options: of the optimiser's class, such as `eps`.
    """

    def __init__(
        self, groups: list[dict[str, Any]], config: OptimizerConfig, options: dict[str, Any]
    ) -> None:
        self._groups, self._config, self._options = groups, config, options

    @functools.cached_property
    def _optimizer(self) -> Any:
        return self._made()

    def _made(self) -> Any:
        return optimizer_of(self._groups, self._config, **self._options)

    def _gradients(self) -> list[Any]:
        return [vector.grad for group in self._groups for vector in group["params"]]

    def norm(self) -> float:
        """Return the norm of the gradient."""
        return math.hypot(*(float(gradient.norm()) for gradient in self._gradients()))

    def step(self, rate: float, scale: float) -> None:
        """Take a step down the gradient, multiplied by `scale`."""
        self._scale(scale)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.step()

    def _scale(self, scale: float) -> None:
        if scale != 1.0:
            for gradient in self._gradients():
                gradient.mul_(scale)

    def state_dict(self) -> Any:
        """Return the moments by number of the vector."""
        return self._optimizer.state_dict()["state"]

    def load_state_dict(self, state: Mapping[Any, Any]) -> None:
        """Go on from moments."""
        load_moments(self._optimizer, state)

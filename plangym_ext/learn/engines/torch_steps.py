"""Optimiser steps with torch's own optimisers, on the host or on a GPU without waiting for it."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from plangym_ext.learn.schedule import Number, at
from plangym_ext.learn.torch_extra import torch


class OptimizerConfig(Protocol):
    """Optimiser settings in the configurations of algorithms."""

    @property
    def optimizer(self) -> str:
        """Its name."""

    @property
    def learning_rate(self) -> Number:
        """Its step size."""

    @property
    def epsilon(self) -> float:
        """Number added to the root of the second moment."""

    @property
    def adam_beta(self) -> float:
        """Decay of adam's first moment."""

    @property
    def l2(self) -> Number:
        """Weight decay."""


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

    def set_decay(self, decay: float) -> None:
        """Set the weight decay of the first group."""
        self._optimizer.param_groups[0]["weight_decay"] = decay

    def _scale(self, scale: float) -> None:
        if scale != 1.0:
            for gradient in self._gradients():
                gradient.mul_(scale)

    def state_dict(self) -> Any:
        """Return the moments by number of the vector."""
        return self._optimizer.state_dict()["state"]

    def load_state_dict(self, state: Mapping[Any, Any]) -> None:
        """Continue from saved moments."""
        load_moments(self._optimizer, state)


def optimizer_of(
    groups: list[dict[str, Any]], config: OptimizerConfig, **options: Any
) -> torch.optim.Optimizer:
    """Return the optimiser of a config over groups of parameters.

    Args:
        groups: with "params" and "weight_decay".
        config: name and learning rate.
        **options: of the optimiser's class, such as `eps`.
    """
    rate = at(config.learning_rate, 0)
    if config.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=rate, momentum=0.9, **options)
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "rmsprop": torch.optim.RMSprop}
    return kinds[config.optimizer](groups, lr=rate, **options)


def load_moments(optimizer: torch.optim.Optimizer, moments: Mapping[Any, Any]) -> None:
    """Copy the moments of another optimiser; settings stay."""
    # Rates are functions of the count and come of the config, which may have been changed for the
    # rest of the run.
    settings = optimizer.state_dict()["param_groups"]
    # torch takes tensors over as they are: the state must not change with later steps.
    state = copy.deepcopy(dict(moments))
    optimizer.load_state_dict({"state": state, "param_groups": settings})


#: Optimisers that a flag on the device can hold back.
HELD_BACK = ("adam", "adamw")


class DeviceSteps(TorchSteps):
    """Optimiser steps whose rate and enabling flag are numbers on the device.

    So a step can be recorded once and replayed with other rates: see `UpdateGraphs`.

    Args:
        groups: with "params" and "weight_decay".
        config: one of the optimisers `HELD_BACK`, and its learning rate.
        options: of the optimiser's class; `fused` is among them.
    """

    def __init__(
        self, groups: list[dict[str, Any]], config: OptimizerConfig, options: dict[str, Any]
    ) -> None:
        device = groups[0]["params"][0].device
        # torch has this option for GPUs alone: counts of steps are then kept there.
        super().__init__(groups, config, options | {"capturable": device.type == "cuda"})
        self._rate = torch.zeros((), device=device, dtype=torch.float32)
        #: What `_rate` was set to last.
        self._rate_here = 0.0
        self._never = torch.zeros((), device=device, dtype=torch.float32)
        self._always = torch.ones((), device=device, dtype=torch.float32)

    @functools.cached_property
    def _optimizer(self) -> Any:
        made = self._made()
        for group in made.param_groups:
            group["lr"] = self._rate
        return made

    def set_rate(self, rate: float) -> None:
        """Set the learning rate of all steps from now on."""
        if rate != self._rate_here:
            self._rate.fill_(rate)
            self._rate_here = rate

    def begin(self) -> None:
        """Make the moments, which are zeros, if no step was taken yet."""
        # torch makes them with the first step, also where that is held back.
        self.step_unless(self._always)

    def moments(self) -> Iterator[Any]:
        """Yield the tensors that a step changes besides the weights."""
        for state in self._optimizer.state.values():
            yield from state.values()

    def norm_there(self) -> Any:
        """Return the norm of the gradient as a scalar on the device."""
        return torch.stack([gradient.norm() for gradient in self._gradients()]).norm()

    def step_unless(self, failed: Any) -> None:
        """Take a step at the rate that was set, unless `failed`, a scalar there, is 1."""
        self._optimizer.found_inf = failed
        self._optimizer.step()

    def step(self, rate: float, scale: float) -> None:
        self._scale(scale)
        self.set_rate(rate)
        self.step_unless(self._never)

    def load_state_dict(self, state: Mapping[Any, Any]) -> None:
        super().load_state_dict(state)
        # torch has put a copy in its place.
        for group in self._optimizer.param_groups:
            group["lr"] = self._rate

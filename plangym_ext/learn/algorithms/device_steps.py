"""GPU optimiser steps without host synchronisation."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from plangym_ext.learn.algorithms.torch_steps import OptimizerConfig, TorchSteps
from plangym_ext.learn.torch_extra import torch

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
        """Make the moments, which are zeros, if nothing was learned as yet."""
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
        """Take a step; see `TorchSteps.step`."""
        self._scale(scale)
        self.set_rate(rate)
        self.step_unless(self._never)

    def load_state_dict(self, state: Mapping[Any, Any]) -> None:
        """Continue from saved moments."""
        super().load_state_dict(state)
        # torch has put a copy in its place.
        for group in self._optimizer.param_groups:
            group["lr"] = self._rate

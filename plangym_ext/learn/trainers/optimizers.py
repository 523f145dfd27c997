"""Optimisers by name."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Protocol

from plangym_ext.learn.schedule import Number, at
from plangym_ext.learn.torch_extra import nn, torch
from plangym_ext.learn.trainers.config import TrainerConfig
from plangym_ext.learn.trainers.schedules import learning_rate


class OptimizerConfig(Protocol):
    """What configs of trainers and algorithms say of their optimiser."""

    @property
    def optimizer(self) -> str:
        """Its name."""

    @property
    def learning_rate(self) -> Number:
        """Its step size."""

    @property
    def l2(self) -> Number:
        """Weight decay."""


def make_optimizer(network: nn.Module, config: OptimizerConfig) -> torch.optim.Optimizer:
    """Return the optimiser of a config over all parameters of a network."""
    parameters = [p for p in network.parameters() if p.requires_grad]
    groups: list[dict[str, Any]] = [
        # Biases, and the scales of normalisations, are one-dimensional.
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": at(config.l2, 0)},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return optimizer_of([group for group in groups if group["params"]], config)


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


def set_rates(optimizer: torch.optim.Optimizer, config: TrainerConfig, updates: int) -> float:
    """Set what the config says for the update after `updates` others; return the learning rate."""
    rate = learning_rate(config, updates)
    for group in optimizer.param_groups:
        group["lr"] = rate
        # One tells of all: a group has weights alone, or what does not decay.
        if group["params"][0].ndim > 1:
            group["weight_decay"] = at(config.l2, updates)
    return rate


def load_moments(optimizer: torch.optim.Optimizer, moments: Mapping[Any, Any]) -> None:
    """Go on from the moments of another optimiser, which are copied; settings stay.

    Args:
        optimizer: of parameters of the same shapes.
        moments: the "state" of its `state_dict`.
    """
    # Rates are functions of the count and come of the config, which may have been changed for the
    # rest of the run.
    settings = optimizer.state_dict()["param_groups"]
    # torch takes tensors over as they are: the state must not change with later steps.
    state = copy.deepcopy(dict(moments))
    optimizer.load_state_dict({"state": state, "param_groups": settings})

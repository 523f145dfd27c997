"""Optimisers by name."""

from __future__ import annotations

from typing import Any

from plangym_ext.learn.torch_extra import nn, torch
from plangym_ext.learn.trainers.config import TrainerConfig


def make_optimizer(network: nn.Module, config: TrainerConfig) -> torch.optim.Optimizer:
    """Return the optimiser of a config over all parameters of a network."""
    parameters = [p for p in network.parameters() if p.requires_grad]
    groups: list[dict[str, Any]] = [
        # Biases, and the scales of normalisations, are one-dimensional.
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": config.l2},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    rate = config.learning_rate
    if config.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=rate, momentum=0.9)
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "rmsprop": torch.optim.RMSprop}
    return kinds[config.optimizer](groups, lr=rate)

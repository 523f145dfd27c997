"""Optimisers by name."""

from __future__ import annotations

from typing import Any

from plangym_ext.learn.torch_extra import nn, torch


def make_optimizer(
    network: nn.Module, name: str, rate: float, l2: float = 0.0, **options: Any
) -> torch.optim.Optimizer:
    """Return an optimiser over all parameters of a network.

    Args:
        network: whose parameters.
        name: one of `plangym_ext.learn.trainers.config.OPTIMIZERS`.
        rate: the learning rate it begins with.
        l2: weight decay; biases are free.
        **options: of the optimiser's class, such as `eps`.
    """
    parameters = [p for p in network.parameters() if p.requires_grad]
    groups: list[dict[str, Any]] = [
        # Biases, and the scales of normalisations, are one-dimensional.
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": l2},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if name == "sgd":
        return torch.optim.SGD(groups, lr=rate, momentum=0.9, **options)
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "rmsprop": torch.optim.RMSprop}
    return kinds[name](groups, lr=rate, **options)

"""Common configuration of the algorithms that train an agent's network. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from plangym_ext.learn.checked_config import CheckedConfig
from plangym_ext.learn.schedule import Number

OPTIMIZERS = ("adam", "adamw", "rmsprop", "sgd")


@dataclass(frozen=True, kw_only=True)
class LearnerConfig(CheckedConfig):
    """Common configuration of the algorithms that train an agent's network.

    A `Number` is one, or changes with the updates: a `Schedule`, which settings have as
    `{start, end, over}`, or a function of your own, "module:function".

    Args:
        optimizer: "adam", "adamw", "rmsprop" or "sgd" (with momentum 0.9).
        learning_rate: its step size.
        epsilon: what adam and rmsprop add to the root of the second moment.
        l2: weight decay; biases are free.
        max_grad_norm: longer gradients are shortened to this; None: they are not.
        discount: gamma, per step.
    """

    optimizer: str = "adam"
    learning_rate: Number = 3e-4
    # Of OpenAI's Baselines for PPO and A2C; torch's own is 1e-8.
    epsilon: float = 1e-5
    l2: float = 0.0
    max_grad_norm: Number | None = 0.5
    discount: float = 0.99

    def __post_init__(self) -> None:
        """Check the settings."""
        super().__post_init__()
        self._choice("optimizer", OPTIMIZERS)
        self._number("epsilon", 0.0)
        self._scheduled("l2", 0.0)
        self._number("discount", 0.0, 1.0)
        self._scheduled("learning_rate", 0.0)
        self._limit("max_grad_norm")

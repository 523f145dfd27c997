"""Common configuration of the algorithms that train an agent's network. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from plangym_ext.core.options import CheckedOptions, OneOf, Share, Weight
from plangym_ext.learn.schedule import Limit, Scheduled

OPTIMIZERS = ("adam", "adamw", "rmsprop", "sgd")


@dataclass(frozen=True, kw_only=True)
class LearnerConfig(CheckedOptions):
    """Common configuration of the algorithms that train an agent's network.

    A `Number` is one, or changes with the updates: a `Schedule`, which settings have as
    `{start, end, over}`, or a function of your own, "module:function".

    Args:
        optimizer: "adam", "adamw", "rmsprop" or "sgd" (with momentum 0.9).
        learning_rate: its step size.
        adam_beta: how much adam's first moment keeps of itself in each step.
        epsilon: what adam and rmsprop add to the root of the second moment.
        l2: weight decay; biases are free.
        max_grad_norm: longer gradients are shortened to this; None: they are not.
        discount: gamma, per step.
    """

    optimizer: Annotated[str, OneOf(OPTIMIZERS)] = "adam"
    learning_rate: Scheduled = 3e-4
    adam_beta: Share = 0.9
    # Of OpenAI's Baselines for PPO and A2C; torch's own is 1e-8.
    epsilon: Weight = 1e-5
    l2: Weight = 0.0
    max_grad_norm: Limit = 0.5
    discount: Share = 0.99

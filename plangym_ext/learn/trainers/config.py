"""Settings of the trainers. Needs numpy alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from plangym_ext.core.own_modules import load_own
from plangym_ext.learn.schedule import Number
from plangym_ext.learn.targets import (
    ACTION,
    POLICY_TARGETS,
    QUALITIES,
    VALUE_TARGETS,
    check_target,
)
from plangym_ext.learn.trainers.checked_config import CheckedConfig

OPTIMIZERS = ("adam", "adamw", "rmsprop", "sgd")
#: (arrays [batch, ...] by name, [batch] in [0, 1)) -> such arrays
Augmentation = Callable[[Mapping[str, npt.NDArray[Any]], Any], Mapping[str, npt.NDArray[Any]]]
SCHEDULES = ("constant", "linear", "cosine", "rsqrt")


@dataclass(frozen=True, kw_only=True)
class TrainerConfig(CheckedConfig):
    """What all trainers have in common.

    A `Number` is one, or changes with the updates: a `Schedule`, which settings have as
    `{start, end, over}`, or a function of your own, "module:function".

    Args:
        optimizer: "adam", "adamw", "rmsprop" or "sgd" (with momentum 0.9).
        learning_rate: its step size, before the schedule.
        schedule: "constant", "linear", "cosine" or "rsqrt"; see `learn.trainers.schedules`.
        schedule_updates: updates until "linear" and "cosine" have come to `final_rate`, or
            until "rsqrt" begins to fall.
        warmup_updates: updates over which the rate rises from 0.
        final_rate: what is left of the rate at the end of "linear" and "cosine", a share.
        batch_size: rows per update.
        l2: weight of l2 / 2 times the sum of squared weights; biases are free. "adamw" has
            no such part in its loss: each update takes learning_rate * l2 times a weight
            from it (decoupled weight decay).
        max_grad_norm: longer gradients are shortened to this; None: they are not.
        discount: gamma of the targets, per step.
        n_steps: of targets that look that far ahead.
        augment: function that puts an image of each row in its place, such as a mirrored board,
            as "module:function"; None: rows are learned as they are. It takes the arrays
            `[batch, ...]` by name and as many random numbers `[batch]` in [0, 1).
    """

    optimizer: str = "adam"
    learning_rate: Number = 1e-3
    schedule: str = "constant"
    schedule_updates: int = 10_000
    warmup_updates: int = 0
    final_rate: float = 0.0
    batch_size: int = 256
    l2: Number = 1e-4
    max_grad_norm: Number | None = 10.0
    discount: float = 0.99
    n_steps: int = 10
    augment: str | None = None

    def __post_init__(self) -> None:
        """Check the settings."""
        super().__post_init__()
        if self.augment is not None:
            # Loaded now: a name that is wrong is found before anything is played.
            self.augmentation()
        self._choice("optimizer", OPTIMIZERS)
        self._choice("schedule", SCHEDULES)
        for name in ("schedule_updates", "batch_size", "n_steps"):
            self._number(name, 1, whole=True)
        self._number("warmup_updates", 0, whole=True)
        self._scheduled("learning_rate", 0.0)
        self._scheduled("l2", 0.0)
        self._number("final_rate", 0.0, 1.0)
        self._number("discount", 0.0, 1.0)
        if self.max_grad_norm is not None:
            self._scheduled("max_grad_norm", 0.0)

    def augmentation(self) -> Augmentation | None:
        """Return the function that `augment` names."""
        if self.augment is None:
            return None
        which = "which takes arrays by name and random numbers, and returns such arrays"
        found: Augmentation = load_own(self.augment, self._option("augment"), "function", which)
        return found


@dataclass(frozen=True, kw_only=True)
class SupervisedConfig(TrainerConfig):
    """A target per head; None: the head is not taught.

    Args:
        value_target: "return", "discounted_return", "value", "n_return" or "solved".
        policy_target: "weights", "action_histogram", "action_histogram_smooth" or "action".
        q_target: "qualities", or a value target, for the action that was played.
        value_weight: of the value head's loss.
        policy_weight: of the policy head's loss.
        q_weight: of the Q head's loss.
    """

    value_target: str | None = None
    policy_target: str | None = None
    q_target: str | None = None
    value_weight: Number = 1.0
    policy_weight: Number = 1.0
    q_weight: Number = 1.0

    def __post_init__(self) -> None:
        """Check the settings."""
        super().__post_init__()
        policies, values = (*POLICY_TARGETS, ACTION), tuple(VALUE_TARGETS)
        check_target(self._option("value_target"), self.value_target, values)
        check_target(self._option("policy_target"), self.policy_target, policies)
        check_target(self._option("q_target"), self.q_target, (QUALITIES, *values))
        for name in ("value_weight", "policy_weight", "q_weight"):
            self._scheduled(name, 0.0)


@dataclass(frozen=True, kw_only=True)
class AlphaZeroConfig(SupervisedConfig):
    """Policy and value, from the visits and what came of the episode."""

    value_target: str | None = "discounted_return"
    policy_target: str | None = "weights"


@dataclass(frozen=True, kw_only=True)
class ValueConfig(SupervisedConfig):
    """A value alone, by default that of the search (Alpacka's Sokoban)."""

    value_target: str | None = "value"


@dataclass(frozen=True, kw_only=True)
class QConfig(SupervisedConfig):
    """What each action returned in the search, where it was tried."""

    q_target: str | None = "qualities"


@dataclass(frozen=True, kw_only=True)
class HistogramConfig(SupervisedConfig):
    """The plans' weights as a policy, and the return (Alpacka's bandit and shooting agents).

    The weights are visit shares of bandit shooting, and the action that was played of
    shooting, whose visits are no choice.
    """

    value_target: str | None = "discounted_return"
    policy_target: str | None = "weights"


@dataclass(frozen=True, kw_only=True)
class TDConfig(TrainerConfig):
    """Values from rewards and the value n steps later.

    Args:
        n_steps: n.
        target_rate: share by which the network that rates later states follows the one
            that learns, per update; 1: it is the same one.
    """

    n_steps: int = 1
    target_rate: Number = 1.0

    def __post_init__(self) -> None:
        """Check the settings."""
        super().__post_init__()
        self._scheduled("target_rate", 0.0, 1.0)

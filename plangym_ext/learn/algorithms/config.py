"""Settings of the algorithms that learn from rollouts. Needs numpy alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from plangym_ext.learn.schedule import Number
from plangym_ext.learn.trainers.checked_config import CheckedConfig
from plangym_ext.learn.trainers.config import OPTIMIZERS

MINIBATCHES = ("step", "env")


@dataclass(frozen=True, kw_only=True)
class RolloutConfig(CheckedConfig):
    """What algorithms have in common that learn from a fragment once and forget it.

    A `Number` is one, or changes with the updates: a `Schedule`, which settings have as
    `{start, end, over}`, or a function of your own, "module:function".

    Args:
        optimizer: "adam", "adamw", "rmsprop" or "sgd" (with momentum 0.9).
        learning_rate: its step size.
        epsilon: what adam and rmsprop add to the root of the second moment.
        l2: weight decay; biases are free.
        max_grad_norm: longer gradients are shortened to this; None: they are not.
        discount: gamma, per step.
        value_weight: of the mean squared error of the values.
        entropy_weight: of the policy's entropy, which is to be large.
        normalize_advantage: to mean 0 and deviation 1 over the "batch", or "none".
        normalize_reward: whether rewards are divided by the deviation of their discounted sums;
            see `RewardNormalizer`. Values are then in these units.
        clip_reward: rewards are clipped to [-clip_reward, clip_reward], after that; None: they
            are not.
        compiled: whether networks of dense layers learn in compiled code, where there is some for
            their policy, which is several times as fast as autograd.
    """

    optimizer: str = "adam"
    learning_rate: Number = 3e-4
    epsilon: float = 1e-5
    l2: float = 0.0
    max_grad_norm: Number | None = 0.5
    discount: float = 0.99
    value_weight: float = 0.5
    entropy_weight: Number = 0.0
    normalize_advantage: str = "none"
    normalize_reward: bool = False
    clip_reward: float | None = None
    compiled: bool = True

    _normalizations: ClassVar[tuple[str, ...]] = ("none", "batch")

    def __post_init__(self) -> None:
        """Check the settings."""
        self._choice("optimizer", OPTIMIZERS)
        self._choice("normalize_advantage", self._normalizations)
        for name in ("epsilon", "l2", "value_weight"):
            self._number(name, 0.0)
        if self.clip_reward is not None:
            self._number("clip_reward", 0.0)
        self._number("discount", 0.0, 1.0)
        for name in ("learning_rate", "entropy_weight"):
            self._scheduled(name, 0.0)
        if self.max_grad_norm is not None:
            self._scheduled("max_grad_norm", 0.0)


@dataclass(frozen=True, kw_only=True)
class ReinforceConfig(RolloutConfig):
    """REINFORCE: the return of each step, less what was expected.

    A network without a value head is taught by episodes that ended in the fragment alone;
    with one, values are the baseline, and what follows the fragment.
    """

    learning_rate: Number = 1e-3
    normalize_advantage: str = "batch"


@dataclass(frozen=True, kw_only=True)
class A2CConfig(RolloutConfig):
    """A2C: one update on each fragment.

    Args:
        gae_lambda: of the advantages; 1: returns minus values.
    """

    optimizer: str = "rmsprop"
    learning_rate: Number = 7e-4
    gae_lambda: float = 1.0

    def __post_init__(self) -> None:
        """Check the settings."""
        super().__post_init__()
        self._number("gae_lambda", 0.0, 1.0)


@dataclass(frozen=True, kw_only=True)
class PPOConfig(RolloutConfig):
    """PPO: several epochs of minibatches on each fragment, with a clipped likelihood ratio.

    Args:
        normalize_advantage: over the "batch", each "minibatch", or "none".
        gae_lambda: of the advantages.
        clip: how far from 1 a likelihood ratio gets a gradient.
        value_clip: how far a value may move from its old one before the larger error counts;
            None: values are not clipped.
        epochs: how often each row is learned from.
        batch_size: most rows of a minibatch; those of an epoch differ by one row at most.
        minibatch: "step" draws single steps; "env" draws whole columns, at least one, as
            recurrent networks need.
        target_kl: the epochs end before an update whose minibatch has a divergence of more
            than 1.5 times this; None: never.
    """

    normalize_advantage: str = "minibatch"
    gae_lambda: float = 0.95
    clip: Number = 0.2
    value_clip: Number | None = None
    epochs: int = 10
    batch_size: int = 64
    minibatch: str = "step"
    target_kl: float | None = None

    _normalizations = ("none", "batch", "minibatch")

    def __post_init__(self) -> None:
        """Check the settings."""
        super().__post_init__()
        self._choice("minibatch", MINIBATCHES)
        self._number("gae_lambda", 0.0, 1.0)
        self._scheduled("clip", 0.0)
        if self.value_clip is not None:
            self._scheduled("value_clip", 0.0)
        if self.target_kl is not None:
            self._number("target_kl", 0.0)
        for name in ("epochs", "batch_size"):
            self._number(name, 1, whole=True)

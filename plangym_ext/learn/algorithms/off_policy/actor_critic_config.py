"""Configurations of the off-policy actor-critics (SAC, TD3, DDPG). Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from plangym_ext.core.options import Count, OneOf, Range, Weight, Whole
from plangym_ext.learn.algorithms.off_policy.config import OffPolicyConfig
from plangym_ext.learn.schedule import Number, Scheduled

#: What is multiplied in the dense layers; sums are of float32.
PRECISIONS = ("float32", "bfloat16")


@dataclass(frozen=True, kw_only=True)
class ReplayActorCriticConfig(OffPolicyConfig):
    """Common configuration of SAC, TD3 and DDPG.

    Args:
        critics: how many; the lowest of them counts.
        critic_hidden: widths of the dense layers of each.
        critic_layer_norm: whether these are normalised before their rectifiers, which bounds what
            critics say of actions that were not played. On a CPU updates take up to two fifths
            longer.
        critic_learning_rate: None: `learning_rate`, which is the policy's.
        policy_every: updates of the critics for one of the policy.
        precision: of what is multiplied in the dense layers: "float32", or "bfloat16", which is
            faster on a CPU that has it, and rounds to 8 bits. Weights are kept in float32.
    """

    critics: Count = 2
    critic_hidden: tuple[Count, ...] = (256, 256)
    critic_layer_norm: bool = False
    critic_learning_rate: Scheduled | None = None
    policy_every: Count = 1
    precision: Annotated[str, OneOf(PRECISIONS)] = "float32"

    def critic_layers(self) -> dict[str, Any]:
        """Return the layer options of `make_critics`."""
        layers = {"hidden": self.critic_hidden, "layer_norm": self.critic_layer_norm}
        return {"count": self.critics, **layers}


@dataclass(frozen=True, kw_only=True)
class SACConfig(ReplayActorCriticConfig):
    """Configuration of SAC, with a learned or fixed temperature.

    Args:
        temperature: what the entropy is worth, at first.
        learn_temperature: whether it is learned, at `learning_rate`.
        target_entropy: what the entropy is brought to; None: minus the numbers of an action, in
            units in which its bounds are -1 and 1, or 0.89 times the most of a Discrete space.
    """

    learning_starts: int = 10_000
    temperature: Annotated[float, Range(1e-8)] = 1.0
    learn_temperature: bool = True
    target_entropy: Annotated[float | None, Range(-1e6, 1e6)] = None


@dataclass(frozen=True, kw_only=True)
class TQCConfig(SACConfig):
    """TQC: each critic has quantiles of the return, and the largest of all of them are dropped.

    Args:
        quantiles: of each critic.
        dropped: how many are dropped for each critic, of those of all critics together.
    """

    # As in Stable-Baselines3; Kuznetsov et al. 2020 have five critics of 512-512-512.
    learning_starts: int = 100
    quantiles: Annotated[int, Range(2)] = 25
    dropped: Whole = 2

    def __post_init__(self) -> None:
        """Check the settings."""
        super().__post_init__()
        self._narrow("dropped", 0, self.quantiles - 1)

    def critic_layers(self) -> dict[str, Any]:
        """Return the options of `make_critics`; see `ReplayActorCriticConfig`."""
        return {**super().critic_layers(), "outputs": self.quantiles}


@dataclass(frozen=True, kw_only=True)
class CrossQConfig(SACConfig):
    """CrossQ: SAC with wide, batch-renormalised critics and without target networks.

    So `target_every`, `target_rate` and `critic_layer_norm` say nothing.
    """

    # As in Stable-Baselines3; Bhatt et al. 2024, table 2, have 2,048 for 1,024.
    learning_rate: Number = 1e-3
    adam_beta: float = 0.5
    critic_hidden: tuple[int, ...] = (1024, 1024)
    policy_every: int = 3
    learning_starts: int = 100

    def critic_layers(self) -> dict[str, Any]:
        """Return the options of `make_critics`; see `ReplayActorCriticConfig`."""
        return {**super().critic_layers(), "layer_norm": False, "batch_renorm": True}


@dataclass(frozen=True, kw_only=True)
class DeterministicConfig(ReplayActorCriticConfig):
    """Common configuration of TD3 and DDPG: exploration noise and target noise.

    Deviations are in units in which the bounds of an action are -1 and 1.

    Args:
        exploration: deviation of the noise on actions that are played to learn from; a schedule
            goes by the steps that were taken in, and not by updates.
        target_noise: deviation of that on the actions whose value is a target.
        target_noise_clip: most of that.
    """

    learning_starts: int = 10_000
    exploration: Scheduled = 0.1
    target_noise: Weight = 0.0
    target_noise_clip: Weight = 0.5


@dataclass(frozen=True, kw_only=True)
class TD3Config(DeterministicConfig):
    """Configuration of TD3: minimum of two critics, policy updates half as often."""

    learning_rate: Number = 1e-3
    # These and the noise of the targets as in Fujimoto et al. 2018, section 6.1.
    policy_every: int = 2
    target_every: int = 2
    target_noise: float = 0.2


@dataclass(frozen=True, kw_only=True)
class DDPGConfig(DeterministicConfig):
    """Configuration of DDPG: one critic, with a policy update per critic update."""

    learning_rate: Number = 1e-3
    critics: int = 1

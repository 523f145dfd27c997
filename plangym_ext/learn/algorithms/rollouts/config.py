"""Configurations of PPO, A2C, PQN, REINFORCE and V-trace. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from plangym_ext.core.options import CheckedOptions, Count, OneOf, Range, Share, Weight
from plangym_ext.learn.schedule import LearnerConfig, Number, Schedule, Scheduled, ScheduledShare

MINIBATCHES = ("step", "env")
FixedLimit = Annotated[float | None, Range(0.0, above=True, advice="None: there is no limit.")]


ADVANTAGES = ("gae", "forked")


@dataclass(frozen=True, kw_only=True)
class AdvantageConfig(CheckedOptions):
    """Source of the advantages: played steps, or branches from visited states.

    Args:
        name: "gae"; or "forked": of the first actions of k branches from each forked state, beside
            each other. Then those states alone teach, and the steps of branches are charged.
        branches: k, from each forked state.
        horizon: steps after which a branch is cut and worth what the critic says.
        every: steps of an env from one forked state to the next.
        common_random_numbers: whether the branches of a state draw alike after their first actions.
    """

    name: Annotated[str, OneOf(ADVANTAGES)] = "gae"
    branches: Annotated[int, Range(2)] = 4
    horizon: Count = 32
    every: Count = 8
    common_random_numbers: bool = True

    @property
    def forked(self) -> bool:
        """Whether branches are needed."""
        return self.name == "forked"

    @property
    def branching(self) -> dict[str, Any]:
        """The arguments of a `ForkingSampler`, by name."""
        names = ("branches", "horizon", "every", "common_random_numbers")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, kw_only=True)
class RolloutConfig(LearnerConfig):
    """Common configuration of the algorithms that use each fragment once.

    Args:
        normalize_reward: whether rewards are divided by the deviation of their discounted sums;
            see `RewardNormalizer`. Values are then in these units.
        clip_reward: rewards are clipped to [-clip_reward, clip_reward], after that; None: they
            are not.
    """

    normalize_reward: bool = False
    clip_reward: FixedLimit = None


@dataclass(frozen=True, kw_only=True)
class PolicyConfig(RolloutConfig):
    """Common configuration of the algorithms that learn a policy from rollouts.

    Args:
        value_weight: of the mean squared error of the values.
        entropy_weight: of the policy's entropy, which is to be large.
        normalize_advantage: to mean 0 and deviation 1 over the "batch", or "none".
        compiled: whether networks of dense layers learn in compiled code, where there is some for
            their policy, which is several times as fast as autograd.
    """

    value_weight: Weight = 0.5
    entropy_weight: Scheduled = 0.0
    normalize_advantage: Annotated[str, OneOf(("none", "batch"))] = "none"
    compiled: bool = True


@dataclass(frozen=True, kw_only=True)
class ReinforceConfig(PolicyConfig):
    """Configuration of REINFORCE.

    A network without a value head is taught by episodes that ended in the fragment alone;
    with one, values are the baseline, and what follows the fragment.
    """

    learning_rate: Number = 1e-3
    normalize_advantage: str = "batch"


@dataclass(frozen=True, kw_only=True)
class A2CConfig(PolicyConfig):
    """Configuration of A2C.

    Args:
        gae_lambda: of the advantages; 1: returns minus values.
        advantages: what they are estimated from; see `AdvantageConfig`.
    """

    # Optimiser and rate of OpenAI's Baselines.
    optimizer: str = "rmsprop"
    learning_rate: Number = 7e-4
    gae_lambda: ScheduledShare = 1.0
    advantages: AdvantageConfig = field(default_factory=AdvantageConfig)


@dataclass(frozen=True, kw_only=True)
class VTraceConfig(PolicyConfig):
    """Configuration of V-trace, for fragments of an older policy.

    Args:
        ratio_clip: most that a likelihood ratio counts for, in errors and in the gradient of the
            policy; None: no limit.
        trace_clip: likewise in how far later errors reach back.
    """

    optimizer: str = "rmsprop"
    learning_rate: Number = 7e-4
    ratio_clip: FixedLimit = 1.0
    trace_clip: FixedLimit = 1.0


@dataclass(frozen=True, kw_only=True)
class PQNConfig(RolloutConfig):
    """Configuration of PQN.

    Args:
        trace: λ of the returns: 0 looks one step ahead, 1 to the end of the episode.
        epochs: how often each row is learned from.
        batch_size: most rows of a minibatch; those of an epoch differ by one row at most.
        minibatch: "step" draws single steps; "env" draws whole columns, at least one, as
            recurrent networks need.
        exploration: share of random actions; a schedule goes by the steps that were taken in,
            and not by updates.
    """

    learning_rate: Number = 2.5e-4
    max_grad_norm: Number | None = 10.0
    trace: Share = 0.65
    epochs: Count = 4
    batch_size: Count = 128
    minibatch: Annotated[str, OneOf(MINIBATCHES)] = "step"
    exploration: ScheduledShare = field(
        default_factory=lambda: Schedule(start=1.0, end=0.05, over=250_000)
    )


@dataclass(frozen=True, kw_only=True)
class PPOConfig(PolicyConfig):
    """Configuration of PPO.

    Args:
        normalize_advantage: over the "batch", each "minibatch", or "none".
        gae_lambda: of the advantages.
        advantages: what they are estimated from; see `AdvantageConfig`.
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

    normalize_advantage: Annotated[str, OneOf(("none", "batch", "minibatch"))] = "minibatch"
    gae_lambda: ScheduledShare = 0.95
    advantages: AdvantageConfig = field(default_factory=AdvantageConfig)
    clip: Scheduled = 0.2
    value_clip: Scheduled | None = None
    # Epochs, batches and clip are those of Stable-Baselines3.
    epochs: Count = 10
    batch_size: Count = 64
    minibatch: Annotated[str, OneOf(MINIBATCHES)] = "step"
    target_kl: Annotated[
        float | None, Range(0.0, above=True, advice="None: no epoch ends early.")
    ] = None

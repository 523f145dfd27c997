"""Configurations of algorithms with a replay of steps. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from plangym_ext.core.options import Count, OneOf, Range, Share, Weight, Whole
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.replay.base import checked_capacity
from plangym_ext.learn.schedule import LearnerConfig, Number, Schedule, Scheduled, ScheduledShare


@dataclass(frozen=True, kw_only=True)
class OffPolicyConfig(LearnerConfig):
    """Common configuration of the algorithms with a replay of steps.

    Args:
        capacity: of the replay: steps of all envs, or bytes, such as "2GB".
        frames: whether observations are stacks of images, of which the replay keeps each frame
            once; see `StepReplay`.
        clip_reward: rewards are clipped to [-clip_reward, clip_reward]; None: they are not.
        learning_starts: steps of all envs before which nothing is learned; no updates are
            owed for them.
        updates_per_step: updates per step that is taken in after these, kept exactly.
        batch_size: steps of an update.
        n_steps: most rewards that are summed before what follows is worth its value.
        prioritized: whether steps are drawn in proportion to their errors.
        alpha: how much priorities matter, 0 to 1.
        beta: how far weights undo them, 0 to 1; usually a schedule that ends at 1.
        target_every: updates from one change of the target networks to the next.
        target_rate: how far they then move; 1 copies, less is Polyak's average.
        compile: whether networks that autograd learns are called in code that torch compiles,
            which takes minutes to begin with, and a C++ compiler. It pays for convolutions, if
            at all.
        compiled: whether updates are made without autograd or Python where that is known how,
            which is several times as fast: in compiled code where DQN, SAC, TQC, TD3 or DDPG learn
            networks of dense layers on a CPU; on a GPU as graphs that are recorded once and
            replayed, where the optimiser is adam or adamw, one process learns, the network is
            not recurrent, and neither target_rate nor max_grad_norm is a schedule. Networks of
            your own that read numbers from the GPU while they are asked cannot be recorded.
    """

    epsilon: float = 1e-8
    max_grad_norm: Number | None = None
    capacity: Any = 1_000_000
    frames: bool = False
    clip_reward: Weight | None = None
    learning_starts: Whole = 1_000
    updates_per_step: Weight = 1.0
    batch_size: Count = 256
    n_steps: Count = 1
    prioritized: bool = False
    alpha: Share = 0.6
    beta: ScheduledShare = 0.4
    target_every: Count = 1
    target_rate: ScheduledShare = 0.005
    compile: bool = False
    compiled: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_capacity(self._option("capacity"), self.capacity)

    def _only(self, **values: Any) -> None:
        """Refuse other values of options, which this algorithm has no use for."""
        for name, only in values.items():
            if getattr(self, name) != only:
                raise InvalidOption(
                    f"{self._option(name)} must be {only}; got {getattr(self, name)!r}."
                )


@dataclass(frozen=True, kw_only=True)
class DQNConfig(OffPolicyConfig):
    """Configuration of DQN, with its later extensions as options.

    Args:
        loss: of the errors: "huber", whose gradient is at most 1, or "squared" (half of it).
        double: whether the network itself chooses the action that the target network values.
        exploration: share of random actions; a schedule goes by the steps that were taken in,
            and not by updates.
        exploration_least: that of the first env; `exploration` is then that of the last, and
            those between are evenly spaced in their logarithms. None: all envs have the same.
            Until the first steps were taken in, and of one env alone, it is `exploration`.
    """

    learning_rate: Number = 1e-4
    max_grad_norm: Number | None = 10.0
    learning_starts: int = 10_000
    # One for four steps, as in Mnih et al. 2015.
    updates_per_step: float = 0.25
    batch_size: int = 32
    target_every: int = 1_000
    target_rate: Number = 1.0
    loss: Annotated[str, OneOf(("huber", "squared"))] = "huber"
    double: bool = False
    exploration: ScheduledShare = field(
        default_factory=lambda: Schedule(start=1.0, end=0.05, over=100_000)
    )
    exploration_least: ScheduledShare | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.exploration_least is not None:
            # Which have logarithms.
            for name in ("exploration", "exploration_least"):
                self._narrow(name, 1e-6, 1.0)


@dataclass(frozen=True, kw_only=True)
class VDNConfig(DQNConfig):
    """Configuration of VDN, with the options of DQN; `compiled` says nothing."""

    double: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._only(exploration_least=None)


@dataclass(frozen=True, kw_only=True)
class QMIXConfig(VDNConfig):
    """Configuration of QMIX.

    Args:
        mixing_size: width of the layer between in the mixing network.
    """

    mixing_size: Count = 32


@dataclass(frozen=True, kw_only=True)
class C51Config(DQNConfig):
    """Configuration of C51: `DQNConfig` without a use of `loss`; the network has the atoms.

    Its learning rate is that of the paper. So is not epsilon, there 0.01 / 32: it is for gradients
    of Atari's frames, and where they are smaller little is learned with it.
    """

    learning_rate: Number = 2.5e-4
    epsilon: float = 1e-6


@dataclass(frozen=True, kw_only=True)
class QRDQNConfig(DQNConfig):
    """Configuration of QR-DQN: `DQNConfig` without a use of `loss`.

    Its learning rate is that of the paper; of epsilon see `C51Config`.

    Args:
        kappa: error up to which the loss of a quantile is squared.
    """

    learning_rate: Number = 5e-5
    epsilon: float = 1e-6
    kappa: Annotated[float, Range(1e-6)] = 1.0


@dataclass(frozen=True, kw_only=True)
class RainbowConfig(C51Config):
    """Configuration of Rainbow: C51 with double, 3-step, prioritised updates and noisy layers."""

    # These, and the exponents of priorities, as in Hessel et al. 2018, table 1. Epsilon is 1.5e-4
    # there: see `C51Config`.
    learning_rate: Number = 6.25e-5
    double: bool = True
    n_steps: int = 3
    prioritized: bool = True
    alpha: float = 0.5
    exploration: Number = 0.0


@dataclass(frozen=True, kw_only=True)
class R2D1Config(DQNConfig):
    """Configuration of R2D1: recurrent DQN on batches of sequences.

    Args:
        burn_in: steps of a sequence that only bring the carry up to date.
        length: steps after these, which are learned from.
        eta: priority of a sequence: eta times its largest error, and 1 - eta times the mean.
        rescale: whether values are learned on the scale of `losses.q_values.rescaled`.
    """

    epsilon: float = 1e-6
    max_grad_norm: Number | None = 80.0
    # Discount, n_steps, and exponents of priorities as in Kapturowski et al. 2019. Epsilon is 1e-3
    # there: see `C51Config`.
    discount: float = 0.997
    batch_size: int = 64
    n_steps: int = 5
    prioritized: bool = True
    alpha: float = 0.9
    beta: Number = 0.6
    target_every: int = 2_500
    loss: str = "squared"
    double: bool = True
    burn_in: Whole = 40
    length: Count = 40
    eta: Share = 0.9
    rescale: bool = True


# Configurations of the off-policy actor-critics --------------------------------


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
    precision: Annotated[str, OneOf(("float32", "bfloat16"))] = "float32"

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
class PEARLConfig(SACConfig):
    """Configuration of PEARL: SAC over tasks, in one step; `compiled` and `frames` say nothing.

    `capacity` counts steps of each task, `batch_size` those of each task in an update.

    Args:
        tasks: of an update.
        context: consecutive steps of each from which z is inferred.
        recent: newest steps of each task, in first episodes of trials, that contexts are drawn of.
        divergence_weight: of the posterior's divergence from the prior, in the encoder's loss.
    """

    capacity: Count = 20_000
    batch_size: int = 128
    learning_starts: int = 2_000
    tasks: Count = 8
    context: Count = 40
    recent: Count = 100
    divergence_weight: Weight = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        self._only(prioritized=False, n_steps=1, clip_reward=None)


@dataclass(frozen=True, kw_only=True)
class MBPOConfig(SACConfig):
    """Configuration of MBPO: SAC of single steps, most of them from rollouts in an ensemble.

    Args:
        members: of the ensemble.
        model_hidden: widths of the dense layers of each.
        endings: whether members predict that an episode ends; else none ends in rollouts.
        model_every: steps of all envs, at least, from one time that the ensemble learns, and
            rollouts are made, to the next.
        model_updates: of the ensemble each time.
        model_batch_size: steps of each member in one of these.
        model_learning_rate: of the ensemble.
        rollouts: how many begin each time.
        horizon: steps of a rollout, rounded; a schedule goes by steps of all envs.
        rollout_capacity: newest steps of rollouts that updates are drawn of.
        real_share: of the steps of an update, those that were played.
    """

    learning_starts: int = 1_000
    updates_per_step: float = 20.0
    members: Count = 5
    model_hidden: tuple[Count, ...] = (200, 200, 200)
    endings: bool = True
    model_every: Count = 250
    model_updates: Count = 250
    model_batch_size: Count = 256
    model_learning_rate: Scheduled = 1e-3
    rollouts: Count = 10_000
    horizon: Scheduled = 1.0
    rollout_capacity: Count = 100_000
    real_share: Share = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        self._only(prioritized=False, n_steps=1, frames=False)


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
        super().__post_init__()
        self._narrow("dropped", 0, self.quantiles - 1)

    def critic_layers(self) -> dict[str, Any]:
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

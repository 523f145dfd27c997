"""Configurations of algorithms that learn a model and plan in it. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy.typing as npt

from plangym_ext.core.inherited_options import load_own
from plangym_ext.core.options import Count, OneOf, Range, Share, Weight, Whole
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.schedule import LearnerConfig, Number, Scheduled, ScheduledShare
from plangym_ext.learn.targets import ACTION, POLICY_TARGETS, QUALITIES, VALUE_TARGETS, check_target

#: (arrays [batch, ...] by name, [batch] in [0, 1)) -> such arrays
Augmentation = Callable[[Mapping[str, npt.NDArray[Any]], Any], Mapping[str, npt.NDArray[Any]]]
REPLAYS = ("uniform", "prioritized", "balanced")


@dataclass(frozen=True, kw_only=True)
class TaughtConfig(LearnerConfig):
    """Settings of all algorithms that learn from plans, from a replay.

    Args:
        batch_size: rows of an update.
        capacity: of the replay, in steps.
        learning_starts: steps that must be there before learning begins.
        updates_per_round: updates of the weights.
    """

    learning_rate: Number = 1e-3
    max_grad_norm: Number | None = 10.0
    batch_size: Count = 256
    capacity: Count = 50_000
    learning_starts: Count = 500
    updates_per_round: Whole = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        # A balanced one holds so many of each group, and one of your own what it likes.
        bounded = getattr(self, "replay", "uniform") in ("uniform", "prioritized")
        if bounded and self.learning_starts > self.capacity:
            raise InvalidOption(
                f"{self._option('learning_starts')} must be at most capacity, {self.capacity}, or "
                f"learning would never begin; got {self.learning_starts}."
            )

    def augmentation(self) -> Augmentation | None:
        """Return the function that replaces each row by a random image of it; None for none."""
        return None


@dataclass(frozen=True, kw_only=True)
class PlanLearningConfig(TaughtConfig):
    """Settings of all algorithms that learn from the plans of whole episodes.

    Args:
        l2: weight of l2 / 2 times the sum of squared weights; biases are free. "adamw" has
            no such part in its loss: each update takes learning_rate * l2 times a weight
            from it (decoupled weight decay).
        n_steps: of targets that look that far ahead.
        augment: function that puts an image of each row in its place, such as a mirrored board,
            as "module:function"; None: rows are learned as they are. It takes the arrays
            `[batch, ...]` by name and as many random numbers `[batch]` in [0, 1).
        replay: how batches are drawn from the steps of past episodes: "uniform", "prioritized"
            or "balanced"; or "module:Class" of a `Replay` of your own.
        capacity: of the replay, in steps; per group if balanced.
        balance_by: field of episodes whose values are the groups of "balanced"; see
            `collector.attributes`.
        alpha: how much priorities matter, for "prioritized".
        beta: how far weights undo it, for "prioritized".
        replay_options: further arguments of a replay of your own, after `capacity` and `seed`.
    """

    epsilon: float = 1e-8
    l2: Scheduled = 1e-4  # type: ignore[assignment] # the only algorithms that change it
    n_steps: Count = 10
    augment: str | None = None
    replay: Annotated[str, OneOf(REPLAYS, own=True)] = "uniform"
    balance_by: str = "solved"
    alpha: Share = 0.6
    beta: ScheduledShare = 0.4
    replay_options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.augment is not None:
            # Loaded now: a name that is wrong is found before anything is played.
            self.augmentation()

    def augmentation(self) -> Augmentation | None:
        """Return the function named by `augment`."""
        if self.augment is None:
            return None
        which = "which takes arrays by name and random numbers, and returns such arrays"
        found: Augmentation = load_own(self.augment, self._option("augment"), "function", which)
        return found

    @property
    def grouped_by(self) -> str | None:
        """The episode field whose values define the replay groups; None: no groups."""
        return self.balance_by if self.replay == "balanced" else None


@dataclass(frozen=True, kw_only=True)
class SupervisedConfig(PlanLearningConfig):
    """Targets of the heads; None: the head is not trained.

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
    value_weight: Scheduled = 1.0
    policy_weight: Scheduled = 1.0
    q_weight: Scheduled = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        policies, values = (*POLICY_TARGETS, ACTION), tuple(VALUE_TARGETS)
        check_target(self._option("value_target"), self.value_target, values)
        check_target(self._option("policy_target"), self.policy_target, policies)
        check_target(self._option("q_target"), self.q_target, (QUALITIES, *values))

    @property
    def discounts(self) -> bool:
        """Whether a target depends on the discount."""
        # Values that the planner has found, undiscounted ones, and none.
        return self.value_target not in (None, "return", "solved", "value")


@dataclass(frozen=True, kw_only=True)
class AlphaZeroConfig(SupervisedConfig):
    """AlphaZero: policy targets from visits, value targets from the episode's outcome."""

    value_target: str | None = "discounted_return"
    policy_target: str | None = "weights"


@dataclass(frozen=True, kw_only=True)
class ValueConfig(SupervisedConfig):
    """Value targets only, by default the search's value (Alpacka's Sokoban)."""

    value_target: str | None = "value"


@dataclass(frozen=True, kw_only=True)
class QConfig(SupervisedConfig):
    """Q targets: the search's return of each action it tried."""

    q_target: str | None = "qualities"


@dataclass(frozen=True, kw_only=True)
class HistogramConfig(SupervisedConfig):
    """Policy targets from the plans' weights, value targets from returns (Alpacka).

    The weights are visit shares of bandit shooting, and the action that was played of
    shooting, whose visits are no choice.
    """

    value_target: str | None = "discounted_return"
    policy_target: str | None = "weights"


@dataclass(frozen=True, kw_only=True)
class TDConfig(PlanLearningConfig):
    """n-step temporal-difference value targets.

    Args:
        n_steps: n.
        target_rate: share by which the network that rates later states follows the one
            that learns, per update; 1: it is the same one.
    """

    n_steps: int = 1
    target_rate: ScheduledShare = 1.0

    @property
    def discounts(self) -> bool:
        """Whether a target depends on the discount: always."""
        return True


@dataclass(frozen=True, kw_only=True)
class ExpertConfig(TaughtConfig):
    """Expert iteration: a policy that learns what a planner does, and guides it.

    Args:
        teacher_share: how likely a step is the teacher's; the others are the student's. Usually
            a schedule that falls from 1, by the updates.
        guided: whether the teacher asks the network that it teaches, if it is a planner that
            asks one.
        reanalyze: stored states that are searched again with the network of now, for each one
            that is visited; their targets are replaced.
        capacity: of the replay, in states.
        value_target: "root": what the search says of a state; "return": what was played from
            there on, by GAE.
        gae_lambda: of "return".
        value_weight: of the loss of the values: the squared error in units of the network's
            `value_scale`.
        entropy_weight: what the entropy of the policy is worth.
    """

    batch_size: int = 128
    teacher_share: ScheduledShare = 0.0
    guided: bool = True
    reanalyze: Annotated[float, Range(0.0, 1000.0)] = 0.0
    value_target: Annotated[str, OneOf(("root", "return"))] = "root"
    gae_lambda: ScheduledShare = 0.95
    value_weight: Scheduled = 1.0
    entropy_weight: Scheduled = 0.0

    @property
    def searching(self) -> dict[str, object]:
        """The arguments of an `ExpertSampler`, by name."""
        return {"share": self.teacher_share, "reanalyze": self.reanalyze, "capacity": self.capacity}


@dataclass(frozen=True, kw_only=True)
class MuZeroConfig(PlanLearningConfig):
    """MuZero, and Gumbel MuZero with the planner's `selection = "gumbel"`.

    Args:
        unroll: K, steps that the model takes after a state of the replay.
        n_steps: rewards of a value's target, before the search's value of the state after them.
        reanalyze: stored states that are searched again with the network of now, for each step
            that is added; their policies and values are replaced.
        policy_weight: of the cross-entropy of the policies.
        value_weight: of the loss of the values.
        reward_weight: of the loss of the rewards.
        ending_weight: of the loss of the endings, if the network predicts them.
        replay: "uniform" or "prioritized", by the loss of a state and its K steps.
    """

    unroll: Count = 5
    reanalyze: Annotated[float, Range(0.0, 1000.0)] = 0.0
    policy_weight: Scheduled = 1.0
    value_weight: Scheduled = 0.25
    reward_weight: Scheduled = 1.0
    ending_weight: Scheduled = 1.0
    replay: Annotated[str, OneOf(("uniform", "prioritized"))] = "uniform"


@dataclass(frozen=True, kw_only=True)
class EnsembleLearningConfig(PlanLearningConfig):
    """Training of an ensemble of observation models, in which a planner such as iCEM plans.

    Args:
        bounds_weight: of the distance between the bounds of the members' log-variances.
    """

    bounds_weight: Weight = 0.01

    @property
    def discounts(self) -> bool:
        """Whether a target depends on the discount: none does."""
        return False

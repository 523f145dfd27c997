"""Configurations of algorithms that learn a model and plan in it. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from plangym_ext.core.options import Count, OneOf, Range, Weight
from plangym_ext.learn.algorithms.plan_config import PlanLearningConfig
from plangym_ext.learn.schedule import Scheduled


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
    """Learning of an ensemble of observation models, in which a planner such as iCEM plans.

    Args:
        bounds_weight: of the distance between the bounds of the members' log-variances.
    """

    bounds_weight: Weight = 0.01

    @property
    def discounts(self) -> bool:
        """Whether a target depends on the discount: none does."""
        return False

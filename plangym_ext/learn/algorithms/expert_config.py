"""Configuration of expert iteration. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from plangym_ext.errors import InvalidOption
from plangym_ext.learn.algorithms.learner_config import LearnerConfig
from plangym_ext.learn.schedule import Number

VALUE_TARGETS = ("root", "return")


@dataclass(frozen=True, kw_only=True)
class ExpertConfig(LearnerConfig):
    """Configuration of expert iteration: a policy learns a planner's actions and guides it.

    Args:
        teacher_share: how likely a step is the teacher's; the others are the student's. Usually
            a schedule that falls from 1, by the updates.
        guided: whether the teacher asks the network that it teaches, if it is a planner that
            asks one.
        reanalyze: stored states that are searched again with the network of now, for each one
            that is visited; their targets are replaced.
        capacity: of the replay, in states.
        learning_starts: states that must be there before learning begins.
        updates_per_round: updates of the weights.
        batch_size: states of an update.
        value_target: "root": what the search says of a state; "return": what was played from
            there on, by GAE.
        gae_lambda: of "return".
        value_weight: of the loss of the values: the squared error in units of the network's
            `value_scale`.
        entropy_weight: what the entropy of the policy is worth.
    """

    learning_rate: Number = 1e-3
    max_grad_norm: Number | None = 10.0
    teacher_share: Number = 0.0
    guided: bool = True
    reanalyze: float = 0.0
    capacity: int = 50_000
    learning_starts: int = 500
    updates_per_round: int = 16
    batch_size: int = 128
    value_target: str = "root"
    gae_lambda: float = 0.95
    value_weight: Number = 1.0
    entropy_weight: Number = 0.0

    def __post_init__(self) -> None:
        """Check the settings."""
        super().__post_init__()
        self._choice("value_target", VALUE_TARGETS)
        for name in ("capacity", "learning_starts", "batch_size"):
            self._number(name, 1, whole=True)
        if self.learning_starts > self.capacity:
            raise InvalidOption(
                f"{type(self).__name__}: learning_starts must be at most capacity, "
                f"{self.capacity}, or learning would never begin; got {self.learning_starts}."
            )
        self._number("updates_per_round", 0, whole=True)
        self._number("reanalyze", 0.0, 1000.0)
        self._number("gae_lambda", 0.0, 1.0)
        self._scheduled("teacher_share", 0.0, 1.0)
        for name in ("value_weight", "entropy_weight"):
            self._scheduled(name, 0.0)

    @property
    def searching(self) -> dict[str, object]:
        """The arguments of an `ExpertSampler`, by name."""
        return {
            "share": self.teacher_share,
            "reanalyze": self.reanalyze,
            "capacity": self.capacity,
        }

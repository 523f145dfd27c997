"""What a run asks of an algorithm that learns from what an agent played."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from plangym_ext.errors import InvalidOption
from plangym_ext.learn.parallel.group import ALONE, LearnerGroup
from plangym_ext.learn.sampling.collected import Collected, Progress
from plangym_ext.learn.torch_extra import nn


class AgentAlgorithm(ABC):
    """Abstract; an `Algorithm` that takes trees of samplers, and owns what learning needs.

    A run makes it of its settings: `cls(network, config, seed=seed)`.

    Args:
        network: that the agent plays; changed in place by `train`.
        config: None: the defaults of this algorithm.
        seed: of what is drawn while learning.

    Attributes:
        config_class: a frozen dataclass, whose fields are the settings of the algorithm; among
            them `discount`.
        updates: how many were made, ever: the version of the weights, and the time of schedules.
        steps: steps of all envs that were taken in, ever.
        group: those that learn together; see `join`.

    Raises:
        InvalidOption: the config is of another algorithm.
    """

    config_class: ClassVar[type[Any]]

    def __init__(self, network: nn.Module, config: Any = None, *, seed: int = 0) -> None:  # noqa: ARG002
        self.network: Any = network
        self.config = config or self.config_class()
        if not isinstance(self.config, self.config_class):
            raise InvalidOption(
                f"{type(self).__name__}: config must be a {self.config_class.__name__}; got a "
                f"{type(self.config).__name__}."
            )
        self.updates = self.steps = 0
        self.group: LearnerGroup = ALONE

    def join(self, group: LearnerGroup) -> None:  # noqa: ARG002
        """Learn together with the algorithms of other processes, from the weights of the first.

        Every update is then made of the mean of all learners' gradients, and what is normalised
        is normalised by the rows of all: as one learner would that had the rows of all. The
        costs of what is taken in must be those of all learners.

        Raises:
            InvalidOption: this algorithm cannot.
        """
        raise InvalidOption(
            f"{type(self).__name__}: it does not learn in several processes, for it has no join. "
            f"Leave learners at 1."
        )

    def prepare(self, agent: Any) -> None:
        """Tell the agent the version of its weights; see `Algorithm.prepare`.

        One that sets how the agent explores does this as well: a `PolicyAgent` plays at random for
        as long as the version is 0.
        """
        agent.version = self.updates

    @abstractmethod
    def take(self, collected: Collected) -> None:
        """Take in what was collected; see `Algorithm.take`."""

    @abstractmethod
    def train(self, progress: Progress | None = None) -> dict[str, float]:
        """Make the updates of a round; see `Algorithm.train`."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return all there is to save; `["trainer"]["network"]` are the weights."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state_dict`, bit for bit."""

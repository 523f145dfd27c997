"""ModelLearning: base class of algorithms that teach the model in which a planner searches."""

from __future__ import annotations

from typing import Any, ClassVar

from plangym_ext.errors import WrongKind
from plangym_ext.learn.algorithms.plan_learning import PlanLearning
from plangym_ext.learn.sampling.collected import Collected
from plangym_ext.learn.torch_extra import nn


class ModelLearning(PlanLearning):
    """Abstract; the network is a model, so steps of searches are none of the env.

    Args:
        network: of `network_class`, changed in place.
        config: None: the defaults.
        seed: of the draws.

    Raises:
        WrongKind: the network is of another class.
    """

    network_class: ClassVar[type[nn.Module]]
    #: How a network of this class is made, for messages.
    made_by: ClassVar[str]

    def __init__(self, network: Any, config: Any = None, *, seed: int = 0) -> None:
        if not isinstance(network, self.network_class):
            raise WrongKind(
                f"{type(self).__name__}: the network must be of {self.network_class.__name__}, "
                f"whose model it teaches; got {type(network).__name__}. {self.made_by}"
            )
        super().__init__(network, config, seed=seed)
        self._seed = seed

    def _env_steps(self, collected: Collected) -> int:
        # What is searched is the model.
        return collected.steps

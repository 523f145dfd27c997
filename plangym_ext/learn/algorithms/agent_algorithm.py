"""AgentAlgorithm: base class of algorithms that train an agent's network."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from plangym_ext.core.inherited_options import InheritedOptions
from plangym_ext.core.numbers import at_least
from plangym_ext.errors import ForeignNetwork, InvalidOption, LossNotFinite, WrongKind
from plangym_ext.learn.engines.flat_optimizer import FlatOptimizer
from plangym_ext.learn.group import ALONE, LearnerGroup
from plangym_ext.learn.networks.state import (
    KnownParameters,
    check_network,
    check_network_state,
    load_network_state,
    network_state,
)
from plangym_ext.learn.repeatable import TorchRandom
from plangym_ext.learn.sampling.collected import Collected, Progress
from plangym_ext.learn.schedule import at
from plangym_ext.learn.torch_extra import device_of, nn


class AgentAlgorithm(InheritedOptions, ABC):
    """Abstract `Algorithm` for sampler trees, which owns optimisers and replay.

    A run makes it of its settings: `cls(network, config, seed=seed)`.

    Args:
        network: that the agent plays; changed in place by `train`.
        config: None: the defaults of this algorithm.
        seed: of what is drawn while learning, in minibatches or by the network.

    Attributes:
        config_class: a frozen dataclass, whose fields are the settings of the algorithm; among
            them `discount`. A `LearnerConfig` has all that this class reads.
        updates: how many were made, ever: the version of the weights, and the time of schedules.
        steps: steps of all envs that were taken in, ever.
        replay: of what was taken in; None where nothing is kept from round to round.
        group: those that learn together; see `join`.

    Raises:
        InvalidOption: the config is of another algorithm, the network is no module, or the seed
            no integer from 0 on.
    """

    config_class: ClassVar[type[Any]]
    replay: Any = None
    #: Whether it learns from rows of one agent each; see `AgentsAgent`.
    _takes_agents: ClassVar[bool] = False

    def __init__(self, network: nn.Module, config: Any = None, *, seed: int = 0) -> None:
        check_network(type(self).__name__, network)
        at_least(f"{type(self).__name__}: seed", seed, 0)
        if hasattr(network, "num_agents") and not self._takes_agents:
            raise InvalidOption(
                f"{type(self).__name__}: the network is of {network.num_agents} agents, from which "
                f"this algorithm cannot learn. Choose 'ppo' or 'a2c', or 'qmix' with Q networks."
            )
        self.network: Any = network
        self.config = config or self.config_class()
        if not isinstance(self.config, self.config_class):
            raise InvalidOption(
                f"{type(self).__name__}: config must be a {self.config_class.__name__}; got a "
                f"{type(self.config).__name__}."
            )
        self._parameters = KnownParameters(type(self).__name__, network)
        self.updates = self.steps = 0
        self.group: LearnerGroup = ALONE
        self._random = TorchRandom(seed, device_of(network))

    def __reduce__(self) -> Any:
        """Refuse to be copied or pickled: optimisers hold on to weights where they lie.

        Raises:
            WrongKind: always.
        """
        raise WrongKind(
            f"{type(self).__name__}: an algorithm cannot be copied or pickled, since its "
            f"optimisers and compiled code refer to the memory of the weights. Make another one "
            f"with the same config, and call its load_state_dict with this one's state_dict."
        )

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
        """Set the version of the agent's weights; see `Algorithm.prepare`.

        One that sets how the agent explores does this as well: a `PolicyAgent` plays at random for
        as long as the version is 0.
        """
        agent.version = self.updates

    @abstractmethod
    def take(self, collected: Collected) -> None:
        """Receive a fragment; see `Algorithm.take`."""

    @abstractmethod
    def train(self, progress: Progress | None = None) -> dict[str, float]:
        """Make the updates of a round; see `Algorithm.train`."""

    def _step_down(
        self, optimizer: FlatOptimizer, loss: Any = None, *, name: str = "", rate: Any = None
    ) -> float:
        """Take one step of an optimiser; return the norm of its gradient before clipping.

        Args:
            optimizer: of the network, or of a part of it.
            loss: scalar tensor, whose gradient is worked out, and the network written; or a
                number, or None, if the gradient is in the optimiser's vector already: then the
                network is not written.
            name: of the loss, for the message.
            rate: learning rate, a `Number`; None: the config's.

        Raises:
            LossNotFinite: loss or gradient is NaN or infinite; the step was not taken.
        """
        config, updates = self.config, self.updates
        most, speed = self._most_norm(), at(config.learning_rate if rate is None else rate, updates)
        # A number of its own, for an infinite Huber loss has a finite gradient.
        given = loss is None or isinstance(loss, float)
        height = loss if given else float(loss.detach())
        norm = math.nan
        if height is None or math.isfinite(height):
            norm = optimizer.descend(speed, most) if given else optimizer.step(loss, speed, most)
        if not math.isfinite(norm):
            what = f"gradient; its norm is {norm}"
            if height is not None:
                called = f"{name} loss".lstrip()
                what = (
                    f"loss and gradient; the {called} is {height}, the norm of its gradient {norm}"
                )
            raise self._not_finite(what)
        return norm

    def _most_norm(self) -> float:
        """Return the norm that longer gradients are shortened to, which may be infinite."""
        most = self.config.max_grad_norm
        return math.inf if most is None else at(most, self.updates)

    def _not_finite(self, what: str) -> LossNotFinite:
        """Return the error of an update that was not made, as `what` was not finite."""
        return LossNotFinite(
            f"{type(self).__name__}.train: update {self.updates} must have a finite {what}. Look "
            f"at rewards and observations for what is not finite; else lower learning_rate."
        )

    # Saving ---------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return weights, optimisers, counters, replay and generators; see `Algorithm.state_dict`.

        It is for the time between `train` and the next `collect`: fragments that were taken and not
        trained on are part of it only with a replay. Tensors and arrays are the algorithm's own:
        save or copy them before the next `take`.
        """
        state = {"trainer": self.trainer_dict(), "torch_random": self._random.state_dict()}
        return state if self.replay is None else state | {"replay": self.replay.state_dict()}

    def trainer_dict(self) -> dict[str, Any]:
        """Return weights, optimisers and counters; see `Algorithm.trainer_dict`."""
        return {
            "trainer": type(self).__name__,
            "optimizer": self._optimizer_name,
            "updates": self.updates,
            "steps": self.steps,
            "network": network_state(self.network),
            **self._own_state(),
        }

    @property
    def _optimizer_name(self) -> str:
        # A config of one's own need not have one.
        return getattr(self.config, "optimizer", "")

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`, bit for bit. Settings stay those of the config.

        Raises:
            ForeignNetwork: it is of another network, algorithm or optimiser, or no state; nothing
                was changed.
            InvalidSamples: its replay is of another capacity; nothing was changed.
        """
        where = f"{type(self).__name__}.load_state_dict"
        parts = ("trainer", "torch_random") + ("replay",) * (self.replay is not None)
        _check_names(where, "a state", state, parts)
        theirs = state["trainer"]
        _check_names(where, "its trainer", theirs, ("trainer", "optimizer"))
        for name, mine in (("trainer", type(self).__name__), ("optimizer", self._optimizer_name)):
            if theirs[name] != mine:
                raise ForeignNetwork(
                    f"{where}: the state is of the {name} {theirs[name]!r}; here it is {mine!r}. "
                    f"Make the algorithm with the same config."
                )
        # All that may refuse the state comes before the first change.
        _check_names(where, "its trainer", theirs, self.trainer_dict())
        check_network_state(self.network, theirs["network"], where)
        self._check_own_state(theirs, where)
        if self.replay is not None:
            # Before all that cannot fail: it may refuse the state.
            self.replay.load_state_dict(state["replay"])
        load_network_state(self.network, theirs["network"], where)
        self._load_own_state(theirs)
        self.updates, self.steps = int(theirs["updates"]), int(theirs["steps"])
        self._random.load_state_dict(state["torch_random"])

    def _own_state(self) -> dict[str, Any]:
        """Return an algorithm's own state beside the network: moments of optimisers."""
        return {}

    def _check_own_state(self, theirs: Mapping[str, Any], where: str) -> None:
        """Refuse a state whose `_own_state` cannot be loaded, before anything is changed."""

    def _load_own_state(self, theirs: Mapping[str, Any]) -> None:
        """Load a result of `_own_state`, and drop experience not learned from."""


def _check_names(where: str, what: str, state: Any, names: Iterable[str]) -> None:
    """Refuse a value that is not a mapping, or lacks one of some names."""
    missing = [name for name in names if not isinstance(state, Mapping) or name not in state]
    if missing:
        found = sorted(map(str, state)) if isinstance(state, Mapping) else type(state).__name__
        raise ForeignNetwork(
            f"{where}: {what} must have {', '.join(map(repr, missing))}; got {found}. Load what "
            f"state_dict of such an algorithm returns."
        )

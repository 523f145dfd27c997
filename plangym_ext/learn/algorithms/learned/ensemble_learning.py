"""Learning of the model in which a planner searches, and of an ensemble of observation models."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from plangym_ext.errors import WrongKind
from plangym_ext.learn.algorithms.plan_config import EnsembleLearningConfig
from plangym_ext.learn.algorithms.plan_learning import Part, PlanLearning
from plangym_ext.learn.models.ensemble import EnsembleNetwork
from plangym_ext.learn.records import EpisodeRecord
from plangym_ext.learn.sampling.collected import Collected
from plangym_ext.learn.torch_extra import nn, torch


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


class EnsembleLearning(ModelLearning):
    """Teaches each member the steps of its own bag, by their likelihood (PETS).

    For continuous actions and very few steps of the env.

    A row of the replay is a step. It counts for a member as often as it was drawn into its bag,
    by a Poisson distribution of mean 1, once and for all.

    Source: Chua et al. 2018, "Deep reinforcement learning in a handful of trials using
    probabilistic dynamics models".

    Args:
        network: an `EnsembleNetwork`, changed in place.
        config: None: the defaults.
        seed: of the draws.

    Raises:
        WrongKind: the network is no `EnsembleNetwork`.
    """

    config_class: ClassVar[type[EnsembleLearningConfig]] = EnsembleLearningConfig
    config: EnsembleLearningConfig

    network_class = EnsembleNetwork
    made_by = "Set agent.name = 'ensemble', or call make_ensemble_network."

    def samples(self, record: EpisodeRecord) -> dict[str, npt.NDArray[Any]]:
        """Return a row per step, arrays that may be views of the record.

        Float32 `obs` and `next_obs` `[T, O]`, `reward` and `ending` `[T]`, `bag` `[T, M]`; and
        `action` `[T, *act]`.
        """
        length, members = record.length, self.network.config.members
        obs = np.asarray(record.observations, np.float32)
        # By what was seen, so that a resumed run has the same bags.
        rng = np.random.default_rng([self._seed, zlib.crc32(obs.tobytes())])
        ending = np.zeros(length, np.float32)
        ending[-1] = record.terminated
        return {
            "obs": obs[:-1],
            "action": np.asarray(record.actions),
            "next_obs": obs[1:],
            "reward": record.rewards.astype(np.float32),
            "ending": ending,
            "bag": rng.poisson(1.0, (length, members)).astype(np.float32),
        }

    def _valued(self, records: list[EpisodeRecord]) -> list[EpisodeRecord]:
        # No target depends on what follows an episode.
        return records

    def _losses(self, batch: Mapping[str, torch.Tensor]) -> dict[str, Part]:
        """Return the losses of rows `[B]`, the means over the members' bags."""
        network = self.network
        count = network.config.members
        names = ("obs", "action", "next_obs", "reward", "ending")
        rows = (batch[name].expand(count, *batch[name].shape) for name in names)
        bags = batch["bag"].T
        likelihood, *of_ending = ((loss * bags).mean(0) for loss in network.losses(*rows))
        # The same for all rows: bounds of the variance are drawn together.
        bounds = self.config.bounds_weight * network.between_bounds
        losses = {"model": likelihood + bounds}
        if of_ending:
            losses["ending"] = of_ending[0]
        return {name: Part(1.0, loss) for name, loss in losses.items()}

"""EnsembleLearning: training of an ensemble of observation models on a planner's steps (PETS)."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from plangym_ext.learn.algorithms.plan_config import EnsembleLearningConfig
from plangym_ext.learn.algorithms.plan_learning import ModelLearning, Part
from plangym_ext.learn.models.ensemble import EnsembleNetwork
from plangym_ext.learn.records import EpisodeRecord
from plangym_ext.learn.torch_extra import torch


class EnsembleLearning(ModelLearning):
    """Trains each member by the likelihood of a bootstrap sample of the steps (PETS).

    For continuous actions and very few steps of the env.

    A row of the replay is a step. It counts for a member as often as it was drawn into its bag,
    by a Poisson distribution of mean 1, once and for all.

    Source: Chua et al. 2018, "Deep reinforcement learning in a handful of trials using
    probabilistic dynamics models".

    Args:
        network: an `EnsembleNetwork`, changed in place.

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
        # By the number of past steps, so that a resumed run has the same bags.
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

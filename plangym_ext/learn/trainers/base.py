"""The interface of trainers, and what they share: one step of gradient descent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from plangym_ext.learn.records import EpisodeRecord
from plangym_ext.learn.torch_extra import nn
from plangym_ext.learn.trainers.config import TrainerConfig


class Trainer(ABC):
    """Teaches a network; owns the optimiser, not the network.

    Args:
        network: a `Network`, or a module like it; changed in place by `update`.
        config: None: the defaults of this trainer.

    Attributes:
        updates: how many have been made.
        errors: `[batch]` float64, how far off each row of the last update was: priorities
            for `PrioritizedReplay`.
    """

    config_class: ClassVar[type[TrainerConfig]]

    def __init__(self, network: nn.Module, config: TrainerConfig | None = None) -> None:
        self.network = network
        self.config = config or self.config_class()
        self.updates = 0
        self.errors: npt.NDArray[np.float64] = np.zeros(0)

    @abstractmethod
    def samples(self, record: EpisodeRecord) -> dict[str, npt.NDArray[Any]]:
        """Return what an episode teaches, a row per step: arrays `[T, ...]` for a replay.

        Names, shapes and dtypes are the same for all episodes of an env.
        """

    def update(
        self, batch: Mapping[str, npt.NDArray[Any]], weights: npt.ArrayLike | None = None
    ) -> dict[str, float]:
        """Take one step on a batch.

        Args:
            batch: rows of `samples`, arrays `[batch, ...]`.
            weights: `[batch]`, how much each row counts; None: all alike.

        Returns:
            "loss", its parts, "grad_norm" before clipping, and "learning_rate".

        Raises:
            LossNotFinite: the loss or its gradient is NaN or infinite; nothing was changed.
        """
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Return weights, optimiser and counters: tensors and plain values, no objects.

        `torch.load(..., weights_only=True)` reads it.
        """
        raise NotImplementedError

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state_dict`, bit for bit.

        Raises:
            ForeignNetwork: it is of another network or optimiser; nothing was changed.
        """
        raise NotImplementedError

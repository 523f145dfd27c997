"""Temporal differences: values from rewards and the value n steps later."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy.typing as npt

from plangym_ext.learn.records import EpisodeRecord
from plangym_ext.learn.trainers.base import Trainer
from plangym_ext.learn.trainers.config import TDConfig, TrainerConfig


class TDTrainer(Trainer):
    """Teaches the value head r + ... + gamma^n V(s_{t+n}); a termination has V = 0."""

    config_class: ClassVar[type[TrainerConfig]] = TDConfig

    def samples(self, record: EpisodeRecord) -> dict[str, npt.NDArray[Any]]:
        """Return `obs`, `reward` `[T]` summed, `next_obs` and `discount` `[T]`."""
        raise NotImplementedError

"""Learning targets that are computed from records."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy.typing as npt

from plangym_ext.learn.records import EpisodeRecord
from plangym_ext.learn.trainers.base import Trainer
from plangym_ext.learn.trainers.config import (
    AlphaZeroConfig,
    HistogramConfig,
    QConfig,
    SupervisedConfig,
    TrainerConfig,
    ValueConfig,
)


class SupervisedTrainer(Trainer):
    """Teaches each head its target; see `SupervisedConfig` and `learn.targets`."""

    config_class: ClassVar[type[TrainerConfig]] = SupervisedConfig

    def samples(self, record: EpisodeRecord) -> dict[str, npt.NDArray[Any]]:
        """Return `obs`, and `value` `[T]`, `policy` `[T, P]`, `legal`, `q`, `q_mask` as taught."""
        raise NotImplementedError


class AlphaZeroTrainer(SupervisedTrainer):
    """`SupervisedTrainer` with the defaults of `AlphaZeroConfig`."""

    config_class = AlphaZeroConfig


class ValueTrainer(SupervisedTrainer):
    """`SupervisedTrainer` with the defaults of `ValueConfig`."""

    config_class = ValueConfig


class QTrainer(SupervisedTrainer):
    """`SupervisedTrainer` with the defaults of `QConfig`."""

    config_class = QConfig


class HistogramTrainer(SupervisedTrainer):
    """`SupervisedTrainer` with the defaults of `HistogramConfig`."""

    config_class = HistogramConfig

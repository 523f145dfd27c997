"""Networks that learn from plans, and that planners ask.

Names are loaded when they are first used. Records, targets, returns and replay need
numpy alone; the rest needs torch, the extra `learn`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plangym_ext.learn.evaluator import NetworkEvaluator
    from plangym_ext.learn.network_policy import NetworkPolicy
    from plangym_ext.learn.networks.config import NetworkConfig
    from plangym_ext.learn.networks.network import Network, NetworkOutput, make_network
    from plangym_ext.learn.networks.state import load_network_state
    from plangym_ext.learn.records import EpisodeRecord, EpisodeRecorder
    from plangym_ext.learn.targets import POLICY_TARGETS, VALUE_TARGETS
    from plangym_ext.learn.trainers.base import Trainer
    from plangym_ext.learn.trainers.config import (
        AlphaZeroConfig,
        HistogramConfig,
        QConfig,
        SupervisedConfig,
        TDConfig,
        TrainerConfig,
        ValueConfig,
    )
    from plangym_ext.learn.trainers.supervised import (
        AlphaZeroTrainer,
        HistogramTrainer,
        QTrainer,
        SupervisedTrainer,
        ValueTrainer,
    )
    from plangym_ext.learn.trainers.td import TDTrainer

_HOME = {
    "AlphaZeroConfig": "trainers.config",
    "AlphaZeroTrainer": "trainers.supervised",
    "EpisodeRecord": "records",
    "EpisodeRecorder": "records",
    "HistogramConfig": "trainers.config",
    "HistogramTrainer": "trainers.supervised",
    "Network": "networks.network",
    "NetworkConfig": "networks.config",
    "NetworkEvaluator": "evaluator",
    "NetworkOutput": "networks.network",
    "NetworkPolicy": "network_policy",
    "POLICY_TARGETS": "targets",
    "QConfig": "trainers.config",
    "QTrainer": "trainers.supervised",
    "SupervisedConfig": "trainers.config",
    "SupervisedTrainer": "trainers.supervised",
    "TDConfig": "trainers.config",
    "TDTrainer": "trainers.td",
    "Trainer": "trainers.base",
    "TrainerConfig": "trainers.config",
    "VALUE_TARGETS": "targets",
    "ValueConfig": "trainers.config",
    "ValueTrainer": "trainers.supervised",
    "load_network_state": "networks.state",
    "make_network": "networks.network",
}

__all__ = [  # noqa: RUF022 - the order of the table
    "AlphaZeroConfig",
    "AlphaZeroTrainer",
    "EpisodeRecord",
    "EpisodeRecorder",
    "HistogramConfig",
    "HistogramTrainer",
    "Network",
    "NetworkConfig",
    "NetworkEvaluator",
    "NetworkOutput",
    "NetworkPolicy",
    "POLICY_TARGETS",
    "QConfig",
    "QTrainer",
    "SupervisedConfig",
    "SupervisedTrainer",
    "TDConfig",
    "TDTrainer",
    "Trainer",
    "TrainerConfig",
    "VALUE_TARGETS",
    "ValueConfig",
    "ValueTrainer",
    "load_network_state",
    "make_network",
]


def __getattr__(name: str) -> Any:
    """Import the module that holds `name` (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List public names, loaded or not."""
    return __all__

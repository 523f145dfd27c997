"""How the learning rate changes with the number of updates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from plangym_ext.learn.schedule import at
from plangym_ext.learn.trainers.config import TrainerConfig


def learning_rate(config: TrainerConfig, updates: int) -> float:
    """Return the rate of the update after `updates` others."""
    # Plus 1, or the first update would have a rate of 0.
    warm = min(1.0, (updates + 1) / config.warmup_updates) if config.warmup_updates else 1.0
    share = _SHARES[config.schedule](updates / config.schedule_updates, config.final_rate)
    return at(config.learning_rate, updates) * warm * share


def _constant(done: float, final: float) -> float:  # noqa: ARG001
    return 1.0


def _linear(done: float, final: float) -> float:
    return 1.0 + (final - 1.0) * min(1.0, done)


def _cosine(done: float, final: float) -> float:
    return final + (1.0 - final) * 0.5 * (1.0 + math.cos(math.pi * min(1.0, done)))


def _rsqrt(done: float, final: float) -> float:  # noqa: ARG001
    return 1.0 / math.sqrt(max(1.0, done))


_SHARES: Mapping[str, Callable[[float, float], float]] = {
    "constant": _constant,
    "linear": _linear,
    "cosine": _cosine,
    "rsqrt": _rsqrt,
}

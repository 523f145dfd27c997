"""Conversion of a critic's values to the env's reward scale."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def in_rewards(settings: Any, learned: Mapping[str, Any]) -> Callable[[Floats], Floats]:
    """Return a function that converts values `[n]` to the env's reward scale.

    Clipped rewards cannot be brought back.

    Args:
        settings: of the algorithm.
        learned: what it has saved as its "trainer".
    """
    if getattr(settings, "rescale", False):
        return _unscaled
    deviation = reward_deviation(settings, learned)
    return lambda values: values * deviation


def reward_deviation(settings: Any, learned: Mapping[str, Any]) -> float:
    """Return the divisor of rewards in a critic's training; 1 without normalisation."""
    from plangym_ext.learn.transforms.rewards import RewardNormalizer

    if learned.get("rewards") is None:
        return 1.0
    rewards = RewardNormalizer(settings.discount)
    rewards.load_state_dict(learned["rewards"])
    return float(rewards.deviation)


def _unscaled(values: Floats) -> Floats:
    from plangym_ext.learn.losses.q_values import unscaled
    from plangym_ext.learn.torch_extra import torch

    found: Floats = unscaled(torch.from_numpy(values)).numpy()
    return found

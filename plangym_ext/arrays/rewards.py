"""Conversion of an env's reward to a float."""

from __future__ import annotations

from typing import Any

import numpy as np

from plangym_ext.errors import InvalidObservation


def reward_of(reward: Any) -> float:
    """Return a reward as a float; arrays of one number count, as for gymnasium's vector envs.

    Raises:
        InvalidObservation: it is no number, or several.
    """
    try:
        return float(reward)
    except (TypeError, ValueError):
        pass
    if isinstance(reward, np.ndarray) and reward.size == 1:
        return float(reward.reshape(-1)[0])
    several = isinstance(reward, list | tuple | dict | np.ndarray)
    advice = (
        "Several, one for each agent or objective, are made one by a wrapper: "
        "gymnasium.wrappers.TransformReward(env, lambda reward: float(sum(reward)))."
        if several
        else "Correct the env."
    )
    raise InvalidObservation(f"reward: expected one number; got {reward!r}. {advice}")

"""Log columns of one round of play: episode means, model steps, evaluator rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from plangym_ext.learn.sampling.collected import Collected
from plangym_ext.learn.sampling.episode_statistics import PLACE


def played_row(collected: Collected, algorithm: Any) -> dict[str, float]:
    """Return the log numbers of a round's play, by column.

    Args:
        collected: in this round.
        algorithm: that has taken it in, and knows all steps.
    """
    episodes, cost = collected.episodes, collected.cost
    count = len(episodes["return"])
    columns = [name for name in episodes if name not in PLACE] if count else []
    found = {
        "episodes": count,
        "model_steps": cost.model_steps,
        "evaluator_rows": cost.evaluator_rows,
        **{name: float(np.mean(episodes[name])) for name in columns},
    }
    if collected.forks is not None:  # what is played is a small part of what is stepped
        found["branch_steps"] = collected.forks.cost.model_steps
        found["total_steps"] = algorithm.steps
    if collected.taught is not None:
        found["search_steps"] = collected.taught.cost.model_steps
        found["total_steps"] = algorithm.steps
    return found

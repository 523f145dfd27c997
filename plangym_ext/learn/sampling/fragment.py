"""Helpers of samplers for one fragment: length check, assembly of the result."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from plangym_ext.arrays import ArrayDict
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.agents.planner_agent import COST
from plangym_ext.learn.sampling.collected import Collected
from plangym_ext.planners.plans import Budget


def whole_fragment(where: str, asked: int | None, num_steps: int) -> None:
    """Refuse to play another number of steps than a sampler was made for.

    Raises:
        InvalidOption: it is another.
    """
    if asked not in (None, num_steps):
        raise InvalidOption(
            f"{where}.collect: fragments have {num_steps} steps, as the sampler was made; got "
            f"{asked!r}."
        )


def collected(
    tree: ArrayDict, episodes: Mapping[str, Any], version: int, began: float, restores: int
) -> Collected:
    """Return the sampler's result: the tree, the episodes and the cost.

    Args:
        tree: of the sampler.
        episodes: that ended.
        version: of the weights.
        began: what `time.perf_counter` said when the fragment began.
        restores: episodes that began from a stored state.
    """
    valid = tree["valid"].to_ndarray(copy=False)
    steps = int(np.count_nonzero(valid))
    # The agent answers for rows that wait, too: they are rows of its batch.
    cost = _searched(tree, valid) or Budget(evaluator_rows=valid.size)
    seconds = time.perf_counter() - began
    cost += Budget(model_steps=steps, restores=restores, seconds=seconds)
    return Collected(tree, episodes, cost, version, played=steps)


def _searched(tree: ArrayDict, valid: Any) -> Budget | None:
    """Return what the searches of a `PlannerAgent` took; None for another agent."""
    told: Any = tree.get("agent_info", {})
    if any(name not in told for name in COST):
        return None
    counts = {name: told[name].to_ndarray(copy=False)[valid].sum() for name in COST}
    return Budget(**{name: int(count) for name, count in counts.items()})

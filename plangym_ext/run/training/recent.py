"""Log columns of a run's play: round means, sliding window of episodes, package versions."""

from __future__ import annotations

import importlib.metadata
import platform
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from plangym_ext.learn.sampling.collected import Collected
from plangym_ext.learn.sampling.episode_statistics import PLACE, Window


class RecentEpisodes:
    """Statistics of the last episodes, across rounds.

    Args:
        size: how many episodes.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._window = Window(size)
        self.statistics: dict[str, float] = {}

    def take(self, episodes: Mapping[str, Any]) -> None:
        """Take the episodes that ended in a round; see `Collected.episodes`."""
        if len(episodes["return"]):  # most short rounds end none: nothing is computed again
            self._look_at(self._window.after({n: episodes[n] for n in ("return", "length")}))

    def _look_at(self, window: Window) -> None:
        self._window, columns = window, window.columns
        if not columns:
            return
        returns = columns["return"]
        self.statistics = {
            "recent/episodes": len(returns),
            "recent/return": float(returns.mean()),
            "recent/return_std": float(returns.std()),
            "recent/return_min": float(returns.min()),
            "recent/return_median": float(np.median(returns)),
            "recent/return_max": float(returns.max()),
            "recent/length": float(columns["length"].mean()),
        }

    def state_dict(self) -> dict[str, Any]:
        """Return the episodes: arrays `[E]` by name, not copied."""
        return dict(self._window.columns)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`."""
        self._look_at(Window(self._size, state))


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
    if collected.again is not None:
        found["search_steps"] = cost.model_steps - collected.steps
        found["total_steps"] = algorithm.steps
    return found


def versions() -> dict[str, str]:
    """Return the versions of Python and of packages that affect results."""
    found = {"python": platform.python_version()}
    for name in ("plangym-ext", "torch", "numpy", "gymnasium", "numba", "ale-py", "mujoco"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


@contextmanager
def timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    """Write the wall time of a block into `seconds`, as the log names it."""
    started = time.perf_counter()
    yield
    seconds[f"seconds/{name}"] = time.perf_counter() - started

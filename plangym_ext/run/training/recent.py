"""RecentEpisodes: sliding window of episode statistics across rounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from plangym_ext.learn.sampling.episode_statistics import Window


class RecentEpisodes:
    """Statistics of the last episodes, across rounds.

    Args:
        size: how many episodes.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._window = Window(size)
        self._statistics: dict[str, float] = {}

    def take(self, episodes: Mapping[str, Any]) -> None:
        """Take the episodes that ended in a round; see `Collected.episodes`."""
        if len(episodes["return"]):  # most short rounds end none: nothing is computed again
            self._look_at(self._window.after({n: episodes[n] for n in ("return", "length")}))

    def statistics(self) -> dict[str, float]:
        """Return the log columns "recent/return" and so on; empty before the first ending."""
        return self._statistics

    def _look_at(self, window: Window) -> None:
        self._window, columns = window, window.columns
        if not columns:
            return
        returns = columns["return"]
        self._statistics = {
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

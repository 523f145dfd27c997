"""What came of a call of some rows of a vector env."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np


class Played(NamedTuple):
    """What came of stepping or resetting k rows; row numbers count from 0 to k - 1.

    Attributes:
        rewards: `[k]` float64.
        terminations, truncations: `[k]` bool.
        infos: `(row, info)` for each info that is not empty, or `GroupedInfos`, which hold
            the finals too.
        finals: `(row, obs, info)` of rows that ended and were reset in the same step.
        obs: observations that have no array form, one for each row; else None.
        states: of all rows of the process, None for one that was never reset; empty if they
            turned out not to be capturable; or None if it was not time to capture them.
        seen: checksum of what the process's rows have shown since their states were captured or
            restored, this call included; see `Seen`. 0 from an engine whose rows cannot die.
        batch: observations of the k rows as one fresh `[k, *obs]` array, if an engine has
            them so; they are on the board as well.
    """

    rewards: np.ndarray
    terminations: np.ndarray
    truncations: np.ndarray
    infos: Iterable[tuple[int, dict[str, Any]]]
    finals: list[tuple[int, Any, dict[str, Any]]]
    obs: list[Any] | None
    states: list[np.ndarray | None] | None
    seen: int = 0
    batch: np.ndarray | None = None


class Called(NamedTuple):
    """What came of another call.

    Attributes:
        results: of each row.
        moves: whether rows may have changed.
        states: as of `Played`.
    """

    results: list[Any]
    moves: bool
    states: list[np.ndarray | None] | None


class PlayedNotes:
    """Gathers what comes of k rows."""

    def __init__(self, num_rows: int, is_array: bool) -> None:
        self.arrays = (np.zeros(num_rows), np.zeros(num_rows, bool), np.zeros(num_rows, bool))
        #: Memory of rewards, terminations and truncations, which takes single values fast.
        rewards, terminations, truncations = self.arrays
        self.memory: Any = rewards.data, terminations.data, truncations.data
        self.infos: list[tuple[int, dict[str, Any]]] = []
        self.finals: list[tuple[int, Any, dict[str, Any]]] = []
        self.obs: list[Any] | None = None if is_array else []

    def add(self, k: int, obs: Any, info: dict[str, Any]) -> None:
        """Note what a row shows."""
        if info:
            self.infos.append((k, info))
        if self.obs is not None:
            self.obs.append(obs)

    def played(self, states: list[np.ndarray | None] | None, seen: int) -> Played:
        """All of it."""
        return Played(*self.arrays, self.infos, self.finals, self.obs, states, seen)

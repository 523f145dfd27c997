"""Uniform sampling from a ring of rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import numpy as np

from plangym_ext.core.numbers import at_least
from plangym_ext.learn.replay.base import Batch, Replay, Samples
from plangym_ext.learn.replay.ring import Ring


@final
class ReplayBuffer(Replay):
    """The newest `capacity` rows; each is drawn with the same probability.

    Args:
        capacity: rows, at least 1. Memory is taken as rows come.
        seed: of the sampling.
    """

    def __init__(self, capacity: int, *, seed: int) -> None:
        super().__init__(capacity, seed=seed)
        self._ring = Ring(self.capacity, self._name)

    def add(self, samples: Samples) -> None:
        """Copy rows in; see `Replay.add`."""
        self._ring.check(samples)
        self._ring.add(samples)

    def sample(self, batch_size: int) -> Batch:
        """Draw rows; see `Replay.sample`."""
        at_least(f"{self._name}: batch_size", batch_size, 1)
        self._ring.check_filled()
        places = self._rng.integers(len(self._ring), size=batch_size)
        return Batch(self._ring.take(places), places, np.ones(batch_size, np.float32))

    def all(self) -> dict[str, Any]:
        """Return copies of all rows; see `Replay.all`."""
        return self._ring.take(self._ring.by_age)

    def __len__(self) -> int:
        return len(self._ring)

    def _contents(self) -> dict[str, Any]:
        return self._ring.state_dict()

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._ring = Ring.from_state(state, self.capacity, self._name)

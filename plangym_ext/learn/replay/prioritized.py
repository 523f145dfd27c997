"""PrioritizedReplay: replay buffer with prioritised sampling of rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import numpy as np
import numpy.typing as npt

from plangym_ext.core.numbers import at_least, finite_between
from plangym_ext.errors import InvalidSamples, ReplayEmpty
from plangym_ext.learn.replay.base import Batch, Replay, Samples
from plangym_ext.learn.replay.priorities import (
    ROOT,
    assign,
    drawn_in_parts,
    importance_weights,
    new_sum_tree,
)
from plangym_ext.learn.replay.uniform import Ring


@final
class PrioritizedReplay(Replay):
    """The newest `capacity` rows; row i is drawn with probability p_i^α / Σ p^α.

    A batch of k is drawn from k equal parts of that sum, one row from each. The weights
    are (p_min^α / p_i^α)^β, with the least priority of the batch: the largest weight is 1.

    Args:
        capacity: rows, at least 1. Memory is taken as rows come.
        seed: of the sampling.
        alpha: α, 0 to 1: how much priorities matter; 0 is uniform.
        beta: β, 0 to 1: how far the weights undo it; 1 is all the way. May be assigned later.

    Source: Schaul et al. 2016, "Prioritized experience replay", sections 3.3 and 3.4.
    """

    def __init__(self, capacity: int, *, seed: int, alpha: float = 0.6, beta: float = 0.4) -> None:
        super().__init__(capacity, seed=seed)
        self.alpha = finite_between(f"{self._name}: alpha", alpha, 0.0, 1.0)
        self.beta = finite_between(f"{self._name}: beta", beta, 0.0, 1.0)
        self._ring = Ring(self.capacity, self._name)
        self._tree = new_sum_tree(self.capacity)
        self._priorities = np.zeros(self.capacity)

    def add(self, samples: Samples, priorities: npt.ArrayLike | None = None) -> None:
        """Copy N rows in; see `Replay.add`.

        Args:
            samples: arrays `[N, ...]` by name.
            priorities: `[N]`, finite and not negative; None: the highest one that any row
                has, or 1 where there is none above 0.
        """
        count = self._ring.check(samples)
        if priorities is None:
            # What is new has the highest priority, so that every row is drawn soon, whatever its
            # error.
            priorities = np.full(count, self._priorities[: len(self)].max(initial=0.0) or 1.0)
        given = self._checked(priorities, count)
        places = self._ring.add(samples)
        # More rows than fit: the last ones are there, and their priorities with them.
        self._assign(places, given[len(given) - len(places) :])

    def update_priorities(self, indices: npt.ArrayLike, priorities: npt.ArrayLike) -> None:
        """Set the priorities of rows; the last entry of a repeated index counts.

        Args:
            indices: `[N]` of a `Batch`, drawn since the last `add`.
            priorities: `[N]`, finite and not negative; a row of priority 0 is never drawn.

        Raises:
            InvalidSamples: an index or a priority cannot be.
        """
        places = np.asarray(indices, np.int64)
        if places.ndim != 1 or (places < 0).any() or (places >= len(self)).any():
            raise InvalidSamples(
                f"{self._name}: indices must be [N], from 0 to {len(self) - 1}; got {indices!r}. "
                f"Pass those of a batch."
            )
        self._assign(places, self._checked(priorities, len(places)))

    def sample(self, batch_size: int) -> Batch:
        """Draw rows; see `Replay.sample`."""
        at_least(f"{self._name}: batch_size", batch_size, 1)
        self._ring.check_filled()
        if not self._tree[ROOT] > 0:
            raise ReplayEmpty(
                f"{self._name}: some row must have a positive priority; all {len(self)} have 0."
            )
        places = drawn_in_parts(self._tree, batch_size, self._rng)
        weights = importance_weights(self._tree, places, self.beta)
        return Batch(self._ring.take(places), places, weights)

    def all(self) -> dict[str, Any]:
        """Return copies of all rows; see `Replay.all`."""
        return self._ring.take(self._ring.by_age)

    def __len__(self) -> int:
        return len(self._ring)

    def _checked(self, priorities: npt.ArrayLike, count: int) -> npt.NDArray[np.float64]:
        given = np.asarray(priorities, np.float64)
        if given.shape != (count,) or not ((given >= 0) & np.isfinite(given)).all():
            raise InvalidSamples(
                f"{self._name}: priorities must be {count} finite numbers >= 0; got shape "
                f"{given.shape}, {given.ravel()[:8]}. Pass the absolute error of every row."
            )
        return given

    def _assign(self, places: npt.NDArray[np.int64], priorities: npt.NDArray[np.float64]) -> None:
        self._priorities[places] = priorities
        # 0 to the power of 0 would be 1.
        assign(self._tree, places, np.where(priorities > 0, priorities**self.alpha, 0.0))

    def _contents(self) -> dict[str, Any]:
        return {
            **self._ring.state_dict(),
            "priorities": self._priorities[: len(self)].copy(),
            "alpha": self.alpha,
            "beta": self.beta,
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        ring = Ring.from_state(state, self.capacity, self._name)
        priorities = self._checked(state["priorities"], len(ring))
        alpha, beta = float(state["alpha"]), float(state["beta"])
        self._ring, self.alpha, self.beta = ring, alpha, beta
        self._tree, self._priorities = new_sum_tree(self.capacity), np.zeros(self.capacity)
        self._assign(np.arange(len(ring)), priorities)

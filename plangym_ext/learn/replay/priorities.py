"""Prioritised replay: PrioritizedReplay, priorities, sum tree, importance weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import numpy as np
import numpy.typing as npt

from plangym_ext.core.compiling.jit import kernel
from plangym_ext.core.numbers import at_least, finite_between
from plangym_ext.errors import InvalidSamples, ReplayEmpty
from plangym_ext.learn.replay.base import Batch, Samples
from plangym_ext.learn.replay.uniform import Ring, RowReplay

Places = npt.NDArray[np.int64]

#: Priority of what was learned without an error: with 0 it would never be drawn again, and where
#: rewards are rare that may be all there is.
_LEAST = 1e-6
#: Of a tree, for each place: as many leaves as the next power of two, and as many nodes.
PLACE_BYTES = 4 * 8


def of_errors(errors: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the priorities `[N]`, all above 0, of rows with absolute errors `[N]`.

    Source: Schaul et al. 2016, "Prioritized experience replay", section 3.3: a small constant
    has rows drawn whose error is 0.
    """
    return np.maximum(np.asarray(errors, np.float64), _LEAST)


@final
class Priorities:
    """Priorities p^α of places; place i is drawn with probability p_i^α / Σ p^α.

    Args:
        count: places; all begin with a mass of 0 and are not drawn.
        alpha: α, 0 to 1: how much priorities matter; 0 draws all places alike that have one.
        where: begins the messages.

    Attributes:
        count: as given.
        highest: priority that any place was ever given, at first 1: that of new places.

    Source: Schaul et al. 2016, "Prioritized experience replay", section 3.3.
    """

    def __init__(self, count: int, alpha: float, where: str) -> None:
        self.count, self._where = count, where
        self.alpha = finite_between(f"{where}: alpha", alpha, 0.0, 1.0)
        self.highest = 1.0
        self._tree = new_sum_tree(count)

    @property
    def masses(self) -> npt.NDArray[np.float64]:
        """`[count]` p^α of every place, a view; change it by the methods."""
        return masses_of(self._tree)[: self.count]

    def begin(self, places: Places, drawn: npt.NDArray[np.bool_]) -> None:
        """Give new places the highest priority, and a mass of 0 those that are not to be drawn.

        Args:
            places: `[N]`.
            drawn: `[N]`, which of them are to be drawn.
        """
        assign(self._tree, places, np.where(drawn, self.highest**self.alpha, 0.0))

    def update(self, places: Places, priorities: npt.ArrayLike) -> None:
        """Set priorities of places; the last entry of a repeated place counts.

        Args:
            places: `[N]`, of a draw.
            priorities: `[N]`, finite and not negative; a place of priority 0 is never drawn.

        Raises:
            InvalidSamples: a priority cannot be.
        """
        given = np.asarray(priorities, np.float64)
        if given.shape != places.shape or not ((given >= 0) & np.isfinite(given)).all():
            raise InvalidSamples(
                f"{self._where}: priorities must be {len(places)} finite numbers >= 0; got shape "
                f"{given.shape}, {given.ravel()[:8]}. Pass the absolute error of every row."
            )
        # 0 to the power of 0 would be 1.
        assign(self._tree, places, np.where(given > 0, given**self.alpha, 0.0))
        self.highest = max(self.highest, float(given.max(initial=0.0)))

    def draw(self, count: int, rng: np.random.Generator) -> Places:
        """Return `[count]` places by stratified sampling of the sum of priorities.

        Raises:
            ReplayEmpty: all masses are 0.
        """
        if not self._tree[ROOT] > 0:
            raise ReplayEmpty(
                f"{self._where}: some step must have a positive priority; none has. Collect first."
            )
        return drawn_in_parts(self._tree, count, rng)

    def weights(self, places: Places, beta: float) -> npt.NDArray[np.float32]:
        """Return `[N]` importance weights (p_min^α / p_i^α)^β of a draw; the largest is 1."""
        return importance_weights(self._tree, places, beta)

    def state_dict(self) -> dict[str, Any]:
        """Return masses, a view, and the highest priority."""
        return {"masses": self.masses, "highest": self.highest}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`.

        Raises:
            InvalidSamples: it has another number of masses, or some that cannot be.
        """
        masses, highest = np.ascontiguousarray(state["masses"], np.float64), float(state["highest"])
        # Compiled code writes them, and looks at no bounds.
        numbers = np.append(masses, highest)
        if masses.shape != (self.count,) or not ((numbers >= 0) & np.isfinite(numbers)).all():
            raise InvalidSamples(
                f"{self._where}: the priorities that were saved must be {self.count} finite "
                f"numbers >= 0, and the highest; got shape {masses.shape}, {highest}."
            )
        self._tree = new_sum_tree(self.count)
        assign(self._tree, np.arange(self.count), masses)
        self.highest = highest


# A full binary tree `[2 * size]`: node n has the children 2n and 2n + 1, leaf i is node size + i,
# and a node is the sum of the masses below it. float64 throughout: in float32 the sums round so
# far that rows of no mass are drawn. A node is always computed from its two children, never
# changed by a difference, so it depends on the leaves alone and not on how they came to be.

ROOT = 1

SumTree = npt.NDArray[np.float64]  # [2 * size]


def new_sum_tree(rows: int) -> SumTree:
    """Return a tree for a number of rows, all of mass 0."""
    size = 1 << max(rows - 1, 0).bit_length()
    return np.zeros(2 * size)


def masses_of(tree: SumTree) -> npt.NDArray[np.float64]:
    """Return the masses `[size]` of all rows there is room for, a view."""
    return tree[len(tree) // 2 :]


def drawn_in_parts(tree: SumTree, count: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return `[N]` rows by stratified sampling of the sum, which is above 0.

    So fewer rows come twice than by as many draws of all.
    """
    # `[N]`, one number in each of N equal parts of [0, N).
    parts = np.arange(count) + rng.random(count)
    places = np.empty(count, np.int64)
    draw(tree, parts * (tree[ROOT] / count), places)
    return places


def importance_weights(
    tree: SumTree, places: npt.NDArray[np.int64], beta: float
) -> npt.NDArray[np.float32]:
    """Return `[N]` weights (m_least / m_i)^β of rows that were drawn, with the least mass of them.

    (1 / (N P(i)))^β over the largest of these, in which N and the sum of all masses cancel. That
    of the batch, not of all rows: among these there may be one of hardly any mass, beside which
    every other weighs next to nothing.

    Source: Schaul et al. 2016, "Prioritized experience replay", section 3.4.
    """
    masses = masses_of(tree)[places]
    weights: npt.NDArray[np.float32] = ((masses.min() / masses) ** beta).astype(np.float32)
    return weights


@kernel
def assign(tree: SumTree, places: Any, masses: Any) -> None:
    """Set the masses of rows, in place; the last entry of a repeated row counts.

    Args:
        tree: to write to.
        places: `[N]` int64.
        masses: `[N]` float64, not negative.
    """
    size = len(tree) // 2
    for i in range(len(places)):
        node = size + places[i]
        tree[node] = masses[i]
        node //= 2
        while node >= ROOT:
            tree[node] = tree[2 * node] + tree[2 * node + 1]
            node //= 2


@kernel
def draw(tree: SumTree, targets: Any, places: Any) -> None:
    """Write the row that each target falls on: the first whose running sum exceeds it.

    Args:
        tree: with at least one positive mass.
        targets: `[N]` float64 in [0, sum of all masses).
        places: `[N]` int64, written.
    """
    size = len(tree) // 2
    for i in range(len(targets)):
        node, left_over = ROOT, targets[i]
        while node < size:
            node *= 2
            # Subtracting rounds: what is left may exceed all there is on the right. Then
            # it is the last positive mass, and never one of the zeros after it.
            if left_over >= tree[node] and tree[node + 1] > 0:
                left_over -= tree[node]
                node += 1
        places[i] = node - size


@final
class PrioritizedReplay(RowReplay):
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
        at_least(f"{self._name}: batch_size", batch_size, 1)
        self._ring.check_filled()
        if not self._tree[ROOT] > 0:
            raise ReplayEmpty(
                f"{self._name}: some row must have a positive priority; all {len(self)} have 0."
            )
        places = drawn_in_parts(self._tree, batch_size, self._rng)
        weights = importance_weights(self._tree, places, self.beta)
        return Batch(self._ring.take(places), places, weights)

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

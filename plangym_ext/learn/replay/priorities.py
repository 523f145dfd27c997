"""Prioritised sampling of replay positions: priorities, sum tree, importance weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import numpy as np
import numpy.typing as npt

from plangym_ext.core.compiling.jit import kernel
from plangym_ext.core.numbers import finite_between
from plangym_ext.errors import InvalidSamples, ReplayEmpty

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
        """Give places new priorities; of a place that comes twice the last one counts.

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
        """Continue from a `state_dict`."""
        self._tree = new_sum_tree(self.count)
        masses = np.ascontiguousarray(state["masses"], np.float64)
        assign(self._tree, np.arange(self.count), masses)
        self.highest = float(state["highest"])


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
    """Set the masses of rows, in place; of a row that comes twice the last one counts.

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

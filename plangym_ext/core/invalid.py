"""Detection of invalid observations and rewards (NaN, infinite, out of bounds), and the policy.

Not a number is never valid. An infinity is, where the env's own Box has no bound. Finite numbers
out of bounds are looked for on demand only: many a well-known env leaves its bounds a little.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from plangym_ext.arrays.spaces import Leaf, SpaceLayout
from plangym_ext.core.infos import InfoColumn
from plangym_ext.core.rows import RowBatch
from plangym_ext.errors import InvalidObservation, InvalidOption, UnknownName, suggestion

#: Refuse them, name the rows that have them in an info column, do not look, or refuse finite
#: observations out of their space's bounds as well.
POLICIES = ("raise", "mark", "off", "strict")
#: Values whose sum of squares takes less time than to look at each; without threads, too.
_FEW = 4096
_REMEDIES = {
    "raise": "Correct the env, or make it with invalid='mark' or invalid='off'.",
    "strict": "Correct the env or its space, or make it with invalid='raise', which lets finite "
    "numbers out of bounds pass.",
}
#: Spaces of finitely many elements.
_FINITE = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
#: The info column of "mark".
MARKS = InfoColumn("invalid", bool, "|b1")


class InvalidValue(Exception):
    """Row `row` of a batch has an invalid value; `reason` is for the caller."""

    def __init__(self, row: int, reason: InvalidObservation) -> None:
        super().__init__(row, reason)
        self.row, self.reason = row, reason


def checked_policy(policy: str, where: str) -> str:
    """Return the policy, if it is one.

    Raises:
        UnknownName: it is not.
    """
    if policy not in POLICIES:
        raise UnknownName(
            f"{where}: invalid must be one of {', '.join(POLICIES)}; got {policy!r}"
            f"{suggestion(str(policy), POLICIES)}"
        )
    return policy


def remedy(policy: str) -> str:
    """Return the end of the message of a refused value: advice for the caller."""
    return _REMEDIES[policy]


class ValuePolicy:
    """Checks rewards and observations for invalid values, a range of rows at once.

    Args:
        policy: one of `POLICIES`.
        name: of the env, for messages.
        obs: layout of the observations.
        columns: those of the env's infos.

    Raises:
        ValueError: marks are asked for, and the env has an info field of their name.

    Attributes:
        policy: as given.
        columns: the env's, and that of the marks if there is one.
    """

    def __init__(
        self, policy: str, name: str, obs: SpaceLayout, columns: tuple[InfoColumn, ...]
    ) -> None:
        self.policy, self._name = policy, name
        self._leaves = leaf_checks(policy, obs)
        self._marks_at = len(columns)
        self.columns = columns
        if policy == "mark":
            if any(column.key == MARKS.key for column in columns):
                raise InvalidOption(
                    f"invalid='mark': the env has an info field {MARKS.key!r} of its own. Rename "
                    "it with a wrapper, or choose 'raise' or 'off'."
                )
            self.columns = (*columns, MARKS)

    def bounds_kept(self, obs: Sequence[np.ndarray]) -> bool:
        """Return whether finite observations, an array for each leaf, need no further look."""
        return not (
            self.policy == "strict"
            and any(check.suspects(obs[check.index]) for check in self._leaves)
        )

    def apply(self, batch: RowBatch, rows: slice) -> None:
        """Check `rows` of a batch, whose observations and rewards are in place.

        Raises:
            InvalidValue: the first row that has one, if they are refused.
        """
        if self.policy == "off":
            return
        # Nearly always there is none, which a look at each array finds out.
        suspects = np.count_nonzero(np.isnan(batch.rewards[rows]))
        for check in self._leaves:
            suspects += check.suspects(batch.obs[check.index][rows])
        marks = self._marks(batch, rows) if suspects else None
        if self.policy == "mark":
            self._mark(batch, rows, marks)
        elif marks is not None and marks.any():
            row = rows.start + int(np.argmax(marks))
            raise InvalidValue(row, self._refusal(batch, row))

    def _marks(self, batch: RowBatch, rows: slice) -> np.ndarray:
        """Return which of `rows` have an invalid value."""
        marks = np.isnan(batch.rewards[rows]).any(axis=1)
        for check in self._leaves:
            marks |= check.rows(batch.obs[check.index][rows])
        return marks

    def _mark(self, batch: RowBatch, rows: slice, marks: np.ndarray | None) -> None:
        marked = batch.info[self._marks_at]
        marked[rows] = False if marks is None else marks
        # Infos of their own take the place of the columns, and need the mark, too.
        for row, info in batch.own_infos.items():
            info[MARKS.key] = bool(marked[row])

    def _refusal(self, batch: RowBatch, row: int) -> InvalidObservation:
        """Return the error that names the first invalid value of a row."""
        # If no observation is to blame, the reward is.
        words = "reward: expected a number; got nan"
        for check in self._leaves:
            if found := check.words(batch.obs[check.index][row]):
                words = found
                break
        return InvalidObservation(f"{self._name}: {words}. {remedy(self.policy)}")


def leaf_checks(policy: str, obs: SpaceLayout) -> list[LeafCheck]:
    """Return the checks of those observation leaves that a policy needs."""
    found: list[LeafCheck] = []
    for index, leaf in enumerate(obs.leaves):
        # Another element than a Discrete space has is never meant, unlike a number beside a Box.
        if (policy == "strict" or isinstance(leaf.space, _FINITE)) and _is_bounded(leaf):
            found.append(BoundsCheck(index, leaf))
        elif leaf.dtype.kind == "f":
            found.append(FiniteCheck(index, leaf))
    return found


def _is_bounded(leaf: Leaf) -> bool:
    """Return whether a leaf's dtype has numbers that its space does not allow."""
    if leaf.dtype.kind not in "biuf":
        return False
    low, high = leaf.bounds
    if leaf.dtype.kind == "f":
        return bool(np.isfinite(low).any() or np.isfinite(high).any())
    kind = np.iinfo(np.int8 if leaf.dtype.kind == "b" else leaf.dtype)
    return bool((low > kind.min).any() or (high < kind.max).any())


def surely_finite(values: np.ndarray) -> bool:
    """Return whether a quick test proves a few floats finite.

    Args:
        values: of any shape. Of many, or of non-contiguous ones, it says False: there it would
            be no quicker.
    """
    if values.size > _FEW or not values.flags.c_contiguous:
        return False
    # A sum of squares is finite only if all are; large ones may make it infinite.
    return math.isfinite(np.vdot(values, values))


class LeafCheck(ABC):
    """The invalid values of one leaf.

    Attributes:
        index: number of the leaf among all of the observation.
        leaf: as given.
    """

    def __init__(self, index: int, leaf: Leaf) -> None:
        self.index, self.leaf = index, leaf

    @abstractmethod
    def suspects(self, values: np.ndarray) -> int:
        """Return how many values may be invalid; 0 if none is."""

    @abstractmethod
    def values(self, values: np.ndarray) -> np.ndarray:
        """Return `[..., *leaf.shape]` bool, which values are invalid."""

    def words(self, values: np.ndarray) -> str:
        """Return the first invalid value of one row, in words; empty if there is none."""
        bad = self.values(values)
        if not bad.any():
            return ""
        at = tuple(int(k) for k in np.argwhere(bad)[0])
        return (
            f"observation{self.leaf.name}: expected numbers within the bounds of "
            f"{self.leaf.space}; got {values[at]} at index {at}"
        )

    def rows(self, values: np.ndarray) -> np.ndarray:
        """Return `[B]` bool, the rows of `[B, *leaf.shape]` with invalid values."""
        found: Any = self.values(values).reshape(len(values), -1).any(axis=1)
        return found


class FiniteCheck(LeafCheck):
    """Check for NaN, and for infinities where the leaf's Box has a bound."""

    def __init__(self, index: int, leaf: Leaf) -> None:
        super().__init__(index, leaf)
        box = leaf.space
        # Of gymnasium's spaces, Box alone has floats.
        assert isinstance(box, spaces.Box)
        self._no_inf, self._no_minus_inf = np.isfinite(box.high), np.isfinite(box.low)
        #: Whether infinities are valid everywhere.
        self._unbounded = not (self._no_inf.any() or self._no_minus_inf.any())

    def suspects(self, values: np.ndarray) -> int:
        if surely_finite(values):
            return 0
        if self._unbounded:
            return int(np.count_nonzero(np.isnan(values)))
        # Counts infinities that are valid where they are, too; `values` decides.
        return int(values.size - np.count_nonzero(np.isfinite(values)))

    def values(self, values: np.ndarray) -> np.ndarray:
        infinite = (np.isposinf(values) & self._no_inf) | (np.isneginf(values) & self._no_minus_inf)
        return np.isnan(values) | infinite


class BoundsCheck(LeafCheck):
    """Check for NaN and for values outside the bounds of the leaf's space."""

    def suspects(self, values: np.ndarray) -> int:
        return int(np.count_nonzero(self.values(values)))

    def values(self, values: np.ndarray) -> np.ndarray:
        low, high = self.leaf.bounds
        good = np.asarray(np.greater_equal(values, low))  # False for what is no number
        good &= values <= high
        return ~good

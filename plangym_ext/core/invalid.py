"""Values that an observation or a reward must not have, and what is done about them.

Not a number is never valid. An infinity is, where the env's own Box has no bound.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from plangym_ext.arrays.spaces import Leaf, SpaceLayout
from plangym_ext.core.infos import InfoColumn
from plangym_ext.core.rows import RowBatch
from plangym_ext.errors import InvalidObservation, UnknownName, suggestion

#: Refuse them, name the rows that have them in an info column, or do not look.
POLICIES = ("raise", "mark", "off")
#: The info column of "mark".
MARKS = InfoColumn("invalid", bool, "|b1")


class InvalidValue(Exception):
    """Row `row` of a batch has an invalid value; `reason` is for the caller."""

    def __init__(self, row: int, reason: InvalidObservation) -> None:
        super().__init__(row, reason)
        self.row, self.reason = row, reason


def checked_policy(policy: str, where: str) -> str:
    """The policy, if it is one.

    Raises:
        UnknownName: it is not.
    """
    if policy not in POLICIES:
        raise UnknownName(
            f"{where}: invalid must be one of {', '.join(POLICIES)}; got {policy!r}"
            f"{suggestion(str(policy), POLICIES)}"
        )
    return policy


class ValuePolicy:
    """Looks at rewards and float observations, a range of rows at once.

    Args:
        policy: one of `POLICIES`.
        name: of the env, for messages.
        obs: layout of the observations.
        columns: those of the env's infos.

    Raises:
        ValueError: marks are asked for, and the env has an info field of their name.

    Attributes:
        columns: the env's, and that of the marks if there is one.
    """

    def __init__(
        self, policy: str, name: str, obs: SpaceLayout, columns: tuple[InfoColumn, ...]
    ) -> None:
        self._policy, self._name = policy, name
        self._leaves = [
            LeafCheck(k, leaf) for k, leaf in enumerate(obs.leaves) if leaf.dtype.kind == "f"
        ]
        self._marks_at = len(columns)
        self.columns = columns
        if policy == "mark":
            if any(column.key == MARKS.key for column in columns):
                raise ValueError(
                    f"invalid='mark': the env has an info field {MARKS.key!r} of its own. Rename "
                    "it with a wrapper, or choose 'raise' or 'off'."
                )
            self.columns = (*columns, MARKS)

    def apply(self, batch: RowBatch, rows: slice) -> None:
        """Look at `rows` of a batch, whose observations and rewards are in place.

        Raises:
            InvalidValue: the first row that has one, if they are refused.
        """
        if self._policy == "off":
            return
        # Nearly always there is none, which a look at each array finds out.
        suspects = np.count_nonzero(np.isnan(batch.rewards[rows]))
        for check in self._leaves:
            suspects += check.suspects(batch.obs[check.index][rows])
        marks = self._marks(batch, rows) if suspects else None
        if self._policy == "mark":
            self._mark(batch, rows, marks)
        elif marks is not None and marks.any():
            row = rows.start + int(np.argmax(marks))
            raise InvalidValue(row, self._refusal(batch, row))

    def _marks(self, batch: RowBatch, rows: slice) -> np.ndarray:
        """Which of `rows` have an invalid value."""
        marks = np.isnan(batch.rewards[rows]).any(axis=1)
        for check in self._leaves:
            marks |= check.rows(batch.obs[check.index][rows])
        return marks

    def _mark(self, batch: RowBatch, rows: slice, marks: np.ndarray | None) -> None:
        marked = batch.info[self._marks_at]
        marked[rows] = False if marks is None else marks
        for row, info in batch.own_infos.items():
            info[MARKS.key] = bool(marked[row])

    def _refusal(self, batch: RowBatch, row: int) -> InvalidObservation:
        """Error that names the first invalid value of a row."""
        remedy = "Correct the env, or make it with invalid='mark' or invalid='off'."
        for check in self._leaves:
            if words := check.words(batch.obs[check.index][row]):
                return InvalidObservation(f"{self._name}: {words}. {remedy}")
        return InvalidObservation(f"{self._name}: reward: expected a number; got nan. {remedy}")


class LeafCheck:
    """The invalid values of one float leaf.

    Attributes:
        unbounded: whether infinities are valid everywhere.
    """

    def __init__(self, index: int, leaf: Leaf) -> None:
        self.index, self.leaf = index, leaf
        box = leaf.space
        assert isinstance(box, spaces.Box)
        self._no_inf, self._no_minus_inf = np.isfinite(box.high), np.isfinite(box.low)
        self.unbounded = not (self._no_inf.any() or self._no_minus_inf.any())

    def suspects(self, values: np.ndarray) -> int:
        """How many values may be invalid; 0 if none is."""
        if self.unbounded:
            return int(np.count_nonzero(np.isnan(values)))
        return int(values.size - np.count_nonzero(np.isfinite(values)))

    def words(self, values: np.ndarray) -> str:
        """The first invalid value of one row, in words; empty if there is none."""
        bad = self.values(values)
        if not bad.any():
            return ""
        at = tuple(int(k) for k in np.argwhere(bad)[0])
        return (
            f"observation{self.leaf.name}: expected numbers within the bounds of "
            f"{self.leaf.space}; got {values[at]} at index {at}"
        )

    def values(self, values: np.ndarray) -> np.ndarray:
        """`[..., *leaf.shape]` bool, which values are invalid."""
        infinite = (np.isposinf(values) & self._no_inf) | (np.isneginf(values) & self._no_minus_inf)
        return np.isnan(values) | infinite

    def rows(self, values: np.ndarray) -> np.ndarray:
        """`[B]` bool, which rows of `[B, *leaf.shape]` have invalid values."""
        found: Any = self.values(values).reshape(len(values), -1).any(axis=1)
        return found

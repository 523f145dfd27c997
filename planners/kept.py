"""Kept: per-row memory of a planner between two plans."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from plangym_ext.planners.simulator import SearchModel

Row = TypeVar("Row")


class Kept(ABC):
    """Abstract memory of the B rows of the last plan."""

    def __getstate__(self) -> dict[str, Any]:
        """Return that nothing is kept: what is belongs to an env of this process."""
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        other.clear()
        return vars(other)

    @abstractmethod
    def clear(self) -> None:
        """Drop everything."""

    @abstractmethod
    def keep(self, which: npt.NDArray[np.intp]) -> None:
        """Forget all rows except `which` `[n]`, ascending; these become 0, 1, ..."""

    @abstractmethod
    def forget(self, which: npt.NDArray[np.intp]) -> None:
        """Forget the rows `which` `[n]`; all stay in place."""


class NothingKept(Kept):
    """No memory: every plan starts from nothing."""

    def clear(self) -> None:
        """Do nothing."""

    def keep(self, which: npt.NDArray[np.intp]) -> None:
        """Do nothing."""

    def forget(self, which: npt.NDArray[np.intp]) -> None:
        """Do nothing."""


class KeptRows(Kept, Generic[Row]):
    """Memory per row, valid while plans are over the same env.

    Attributes:
        rows: the B rows, None for one that is forgotten; empty if nothing is kept.
    """

    def __init__(self) -> None:
        self.rows: list[Row | None] = []
        self._env: SearchModel | None = None

    def take(self, env: SearchModel, batch: int) -> list[Row | None]:
        """Remove and return the rows' memory, so that a failed plan leaves none.

        Returns:
            What is known of each of the `batch` rows; None where nothing is, or where it is
            of another env or batch.
        """
        rows, self.rows = self.rows, []
        return rows if self._env is env and len(rows) == batch else [None] * batch

    def put(self, env: SearchModel, rows: Sequence[Row]) -> None:
        """Store the memory of the last plan's rows."""
        self._env, self.rows = env, list(rows)

    def keep(self, which: npt.NDArray[np.intp]) -> None:
        self.rows = [self.rows[i] for i in which] if self.rows else []

    def forget(self, which: npt.NDArray[np.intp]) -> None:
        for i in which.tolist() if self.rows else ():
            self.rows[i] = None

    def clear(self) -> None:
        self.rows, self._env = [], None

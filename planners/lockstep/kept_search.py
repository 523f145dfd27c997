"""KeptSearch: reuse of the last plan's search and its memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from plangym_ext.planners.kept import Kept
from plangym_ext.planners.lockstep.search import Search
from plangym_ext.planners.request import PlanRequest
from plangym_ext.planners.trees.tree import restart

Beside = TypeVar("Beside")


class KeptSearch(Kept, Generic[Beside]):
    """The last search, whose memory is reused even without its trees.

    Args:
        subset: returns what belongs to some rows `[n]` of the search.

    Attributes:
        search: the last one; None if nothing is kept.
        beside: what belongs to it; None if nothing does.
    """

    def __init__(self, subset: Callable[[Beside, npt.NDArray[np.intp]], Beside | None]) -> None:
        self._subset = subset
        self.search: Search | None = None
        self.beside: Beside | None = None

    def take(self, request: PlanRequest) -> tuple[Search | None, Beside | None]:
        """Remove and return a reusable search, so that a failed plan leaves none."""
        search, beside = self.search, self.beside
        self.clear()
        return (search, beside) if search is not None and search.fits(request) else (None, None)

    def put(self, search: Search, beside: Beside | None) -> None:
        """Keep a search without waves in flight, and the data that belongs to it."""
        self.search, self.beside = search, beside

    def clear(self) -> None:
        self.search = self.beside = None

    def keep(self, which: npt.NDArray[np.intp]) -> None:
        if self.search is not None:
            self.search = self.search.subset(which)
        if self.beside is not None:
            self.beside = self._subset(self.beside, which)

    def forget(self, which: npt.NDArray[np.intp]) -> None:
        if self.search is not None:
            restart(self.search.tree, which)

"""Rows: the rows of one batch in memory, and the workers that run them; pages of memory.

A batch runs on a page. Its results are not copied out: the caller gets arrays that
look at the page, and the page serves another batch when the last of them is gone.
So a batch's results live as long as the caller keeps them, like any array.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from plangym_ext.arrays.storage import SharedBlock
from plangym_ext.core.results import RowResults
from plangym_ext.core.row_request import RowRequest
from plangym_ext.core.rows import RowBatch
from plangym_ext.errors import WorkerDied, WorkerTimeout
from plangym_ext.workers.batch_layout import BatchLayout
from plangym_ext.workers.remote_errors import ErrorReport


class Death(NamedTuple):
    """A worker's death.

    Attributes:
        rows: `(first, stop)`, one of which it was running; empty if that is not known.
        error: how it ended.
    """

    rows: tuple[int, int]
    error: WorkerDied


class Round(NamedTuple):
    """What is unusual about a round that is over.

    Attributes:
        deaths: of workers that took part.
        failures: first row, report and worker of each error of an env.
        excess: bytes that states need more than their rows have.
        left: rows that are not done, `[n]` int64.
    """

    deaths: list[Death]
    failures: list[tuple[int, ErrorReport, str]]
    excess: int
    left: np.ndarray


class Rows(ABC):
    """Transport of one batch: its rows on a page, and the workers that run them in rounds.

    Attributes:
        request: whose rows.
        batch: views of them in this process.
        state_width: S, the bytes of the rows that there is room for.
        writes_elsewhere: whether workers write to memory that the caller may use again.
    """

    request: RowRequest
    batch: RowBatch
    state_width: int
    writes_elsewhere = False
    _page: Page | None = None

    @abstractmethod
    def begin(self) -> None:
        """Take memory, copy the inputs in, and offer all rows."""

    @abstractmethod
    def offer_again(self, left: np.ndarray, deaths: list[Death]) -> None:
        """Offer rows that are not done, such that one which kills its worker is found."""

    @abstractmethod
    def waiting(self) -> list[Any]:
        """Return workers that may be running rows; the round is over when there are none."""

    @abstractmethod
    def listen(self, timeout: float) -> bool:
        """Take in what comes, replace dead workers; whether anything came within the timeout."""

    @abstractmethod
    def end_round(self) -> Round | None:
        """End a round that is over; None if all went as usual."""

    @abstractmethod
    def hung(self) -> tuple[list[Any], float | None]:
        """Return workers without progress for too long, and the limit in seconds."""

    @abstractmethod
    def stopped(self, hung: list[Any], seconds: float | None) -> WorkerTimeout:
        """Stop and replace workers that hang, and return the error that names them.

        The others go on with the rows that they have begun, whose results are not used.
        """

    @abstractmethod
    def row_of(self, worker: Any) -> int:
        """Return the row that a worker is running, or the first of its share; else `NO_ROW`."""

    @abstractmethod
    def ask_to_finish(self) -> None:
        """Have every worker say when it is through; once a round."""

    @abstractmethod
    def cancel(self) -> None:
        """Forget workers, which are all gone."""

    @abstractmethod
    def results(self) -> RowResults:
        """Return the results of all rows, which are done: views of the page, or copies."""

    @abstractmethod
    def release(self) -> None:
        """Release the memory, which no worker writes to any more; `begin` may have failed."""

    def discard(self) -> None:  # noqa: B027 - actors have begun all that they were sent
        """Take back what no worker has begun."""

    def abort(self) -> None:  # noqa: B027 - actors come to the end of what they were sent
        """Replace workers that are running rows, which would go on writing."""

    def action(self, row: int) -> Any:
        """Return the action of a row, or its actions if it plays several; fresh."""
        layout = self.batch.layout.action
        action = layout.join(tuple(actions[row].copy() for actions in self.batch.actions))
        return action[0] if self.request.horizon == 1 and layout.is_flat else action

    def state(self, row: int) -> np.ndarray:
        """Return fresh `[S]` uint8: where a row begins."""
        slots = self.request.slots
        source = row if slots is None else int(slots.sources[row])
        state: np.ndarray = self.request.states[source].copy()
        return state


# Pages ------------------------------------------------------------------------------

#: Pages whose results callers may hold at a time; further results are copied out.
MAX_LEASES = 4
#: Bytes under which results are copied out: for a few rows the copy is the lesser work.
_SMALL = 1 << 16
_LINE = 64  # bytes of a cache line
#: Shapes of batches whose views a page keeps.
_MAX_SHAPES = 64


@dataclass(slots=True)
class PageViews:
    """Cached views for batches of one shape on one page.

    Attributes:
        batch: views of the page.
        lines: `[W, 8]` int64, what workers say of themselves; see `worker_lines`.
        nbytes: that these take.
        layout: of batches of which nothing lies elsewhere, if there was one.
    """

    batch: RowBatch
    lines: np.ndarray
    nbytes: int
    layout: BatchLayout | None = None


class Page:
    """A block of memory for one batch at a time.

    Attributes:
        block: the memory.
        busy: whether a batch is running on it.
        views: by the shape of a batch. This is the one cache of what follows from a shape; it
            goes with its page, which is as large as its batches were, and when it is full.
    """

    def __init__(self, nbytes: int) -> None:
        self.block = SharedBlock.create(nbytes)
        self.nbytes = nbytes
        self.busy = False
        self.memory = self.block.ndarray((nbytes,), np.uint8)
        self.views: dict[Hashable, PageViews] = {}
        self._lease: weakref.ref[np.ndarray] | None = None

    def keep(self, shape: Hashable, views: PageViews) -> PageViews:
        """Keep the views for batches of a shape, and return them."""
        if len(self.views) >= _MAX_SHAPES:
            self.views.clear()
        self.views[shape] = views
        return views

    @property
    def leased(self) -> bool:
        """Whether a caller holds results that look at the page."""
        return self._lease is not None and self._lease() is not None

    def lease(self) -> np.ndarray:
        """Return a view `[nbytes]` uint8; the page is leased while it or a view of it lives."""
        # An array over the mapping itself: numpy lets every view of it hold on to it.
        root = self.block.ndarray((self.block.nbytes,), np.uint8)
        self._lease = weakref.ref(root)
        return root


class Pages:
    """The pages of one pool of workers."""

    def __init__(self) -> None:
        self._pages: list[Page] = []

    def take(self, shape: Hashable, nbytes: Callable[[], int]) -> Page:
        """Return a page for a batch, busy from now on.

        Args:
            shape: of the batch.
            nbytes: computes the bytes that it takes; called if no page is known to hold them.
        """
        page = None
        for one in self._pages:  # every batch comes by here
            if one.busy or shape not in one.views or one.leased:
                continue
            if page is None or one.nbytes < page.nbytes:
                page = one
        if page is None:
            page = self._page_of(nbytes())
        page.busy = True
        return page

    def _page_of(self, needed: int) -> Page:
        """Return the smallest free page of at least so many bytes; a new one if there is none."""
        free = [one for one in self._pages if not (one.busy or one.leased)]
        fit = [one for one in free if one.nbytes >= needed]
        if not fit:
            for small in free:
                self._pages.remove(small)
                small.block.close()
            # Half as much again, so that slowly growing batches do not remap each time.
            fit = [Page(-(-needed * 3 // 2 // _LINE) * _LINE)]
            self._pages += fit
        return min(fit, key=lambda one: one.nbytes)

    def drop(self, page: Page) -> None:
        """Release a page to which a worker may still write."""
        if page in self._pages:
            self._pages.remove(page)
            page.block.close()

    def may_lease(self, nbytes: int) -> bool:
        """Return whether results of `nbytes` should look at their page, not be copied."""
        return nbytes >= _SMALL and sum(page.leased for page in self._pages) < MAX_LEASES

    def close(self) -> None:
        """Release all pages; results that callers hold stay valid."""
        for page in self._pages:
            page.block.close()
        self._pages.clear()

"""Shared memory for batches, which the results that callers hold are views of.

A batch runs on a page. Its results are not copied out: the caller gets arrays that
look at the page, and the page serves another batch when the last of them is gone.
So a batch's results live as long as the caller keeps them, like any array.
"""

from __future__ import annotations

import weakref

import numpy as np

from plangym_ext.arrays.storage import SharedBlock

#: Pages whose results callers may hold at a time; further results are copied out.
MAX_LEASES = 4
#: Bytes under which results are copied out: for a few rows the copy is the lesser work.
_SMALL = 1 << 16
_LINE = 64  # bytes of a cache line


class Page:
    """A block of memory for one batch at a time.

    Attributes:
        block: the memory.
        busy: whether a batch is running on it.
        views: whatever its user wants to keep beside it, such as views made before.
        user: which of them was used last.
    """

    def __init__(self, nbytes: int) -> None:
        self.block = SharedBlock.create(nbytes)
        self.nbytes = nbytes
        self.busy = False
        self.memory = self.block.ndarray((nbytes,), np.uint8)
        self.views: dict[object, object] = {}
        self.user: object = None
        self._lease: weakref.ref[np.ndarray] | None = None

    @property
    def leased(self) -> bool:
        """Whether somebody holds results that look at the page."""
        return self._lease is not None and self._lease() is not None

    def lease(self) -> np.ndarray:
        """View `[nbytes]` uint8; the page is leased while it or a view of it lives."""
        # An array over the mapping itself: numpy lets every view of it hold on to it.
        root = self.block.ndarray((self.block.nbytes,), np.uint8)
        self._lease = weakref.ref(root)
        return root


class Pages:
    """The pages of one crew of workers."""

    def __init__(self) -> None:
        self._pages: list[Page] = []

    def take(self, nbytes: int) -> Page:
        """A page of at least `nbytes`, busy from now on."""
        page = None
        for one in self._pages:
            if one.busy or one.nbytes < nbytes or (page is not None and page.nbytes <= one.nbytes):
                continue
            if not one.leased:
                page = one
        if page is None:
            for small in [one for one in self._pages if not (one.busy or one.leased)]:
                self._pages.remove(small)
                small.block.close()
            # Half as much again, so that slowly growing batches do not remap each time.
            page = Page(-(-nbytes * 3 // 2 // _LINE) * _LINE)
            self._pages.append(page)
        page.busy = True
        return page

    def may_lease(self, nbytes: int) -> bool:
        """Whether results of `nbytes` should look at their page rather than be copied."""
        return nbytes >= _SMALL and sum(page.leased for page in self._pages) < MAX_LEASES

    def close(self) -> None:
        """Let go of all pages; results that callers hold stay valid."""
        for page in self._pages:
            page.block.close()
        self._pages.clear()

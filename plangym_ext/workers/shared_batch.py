"""SharedBatch: memory of one batch, in a page or in the caller's arrays; Page, a shared block.

A batch runs on a page. Its results are not copied out: the caller gets arrays that
look at the page, and the page serves another batch when the last of them is gone.
So a batch's results live as long as the caller keeps them, like any array.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

import numpy as np

from plangym_ext.arrays.storage import SharedBlock, told_of_memory
from plangym_ext.core.results import RowResults
from plangym_ext.core.rows import RowBatch, RowLayout, outgrown
from plangym_ext.errors import StorageError
from plangym_ext.workers.batch_layout import BatchLayout, Place, Rows, lines_bytes, worker_lines
from plangym_ext.workers.worker_pool import WorkerPool

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


class SharedBatch(Rows):
    """The memory of one request, described for workers; `load` writes the inputs to it.

    States that lie in shared memory already (results of an earlier batch, slots) are
    read where they are, and shared arrays given as `out` are written in place.

    Attributes:
        lines: `[W, 8]` int64, what workers say of themselves; see `worker_lines`.
        blocks: what workers have to map; held, so that none is closed meanwhile.
        layout: what workers are told.
    """

    lines: np.ndarray
    layout: BatchLayout
    blocks: tuple[SharedBlock, ...] = ()
    _page: Page | None = None
    _pool: WorkerPool
    _pages: Pages
    _rows: RowLayout
    _pinned = False
    #: Whether rows begin where others end: what they read must outlast the batch, in case
    #: a worker dies, so the targets are written when all is done.
    _commit_here = False
    #: Results that workers write where the caller wants them.
    _written: Mapping[str, np.ndarray] = {}

    def load(self) -> None:
        """Take a page, and copy the inputs in that do not lie in shared memory already.

        Raises:
            ValueError: an array given for states is too narrow for them now.
        """
        request, pool = self.request, self._pool
        kind = request.infos, request.unchecked, request.single
        shape = (request.num_rows, request.horizon, *kind, self._rows.state_width)
        try:
            self._page = page = self._pages.take(shape, self._nbytes)
        except StorageError:
            name = pool.workers[0].describe()["name"]
            with told_of_memory("step_batch", request.num_rows, name, self._nbytes()):
                raise
        views = page.views.get(shape) or self._view(page, shape)
        self.batch, self.lines, self._size = views.batch, views.lines, views.nbytes
        # Held from here on: a block that is closed meanwhile could not be mapped by a new worker.
        self.blocks = (page.block,)
        states = request.states
        in_block = states.base is not None and SharedBlock.of(states) is not None
        if request.out or request.slots is not None or in_block:
            self._load_placed(page)
            return
        self.batch.load(request)
        layout = views.layout
        if layout is None or layout.number not in pool.told:
            layout = views.layout = pool.known(layout or self._layout_on(page, ()))
        self.layout = layout

    def _nbytes(self) -> int:
        _, size = self._rows.offsets(self.request.num_rows, self.request.horizon)
        return size + lines_bytes(len(self._pool.workers))

    def _view(self, page: Page, shape: Hashable) -> PageViews:
        """Make the views of a page for the shape of the request."""
        request, memory = self.request, page.memory
        batch = RowBatch(self._rows, request.num_rows, request.horizon, memory, infos=request.infos)
        lines = worker_lines(memory, len(self._pool.workers))
        return page.keep(shape, PageViews(batch, lines, self._nbytes()))

    def _load_placed(self, page: Page) -> None:
        """Find what need not be copied, and load the rest."""
        request, slots, states = self.request, self.request.slots, self.request.states
        needed = (request.num_rows, self._rows.state_width)
        if (given := request.out.get("states_out")) is not None and given.shape != needed:
            raise outgrown(needed, given.shape)
        places: list[Place] = []
        whole = states.shape[1] == self._rows.state_width and states.flags.c_contiguous
        # Rows may have to be run again, so nothing may be written where they begin.
        apart = not any(np.may_share_memory(states, array) for array in request.out.values())
        # Workers read rows where they lie only if these are whole and as wide as their own.
        placed = whole and apart and self._place(places, "states_in", states)
        if slots is not None:
            assert placed or not request.num_rows, "slots lie in shared memory"
            self._commit_here = bool(np.isin(slots.targets, slots.sources).any())
            if not self._commit_here:
                self._place(places, "store", states)
            # Pinned while workers may write: a store that grows would move to other memory.
            slots.store.pins += 1
            self._pinned = True
            self.batch.field("sources")[...] = slots.sources
            self.batch.field("targets")[...] = slots.targets
        self._written = {
            name: array
            for name, array in request.out.items()
            if (name != "states_out" or array.flags.c_contiguous)
            and self._place(places, name, array)
        }
        # After the places are known: inputs that lie in shared memory are not copied.
        self.batch.load(request, states=not placed)
        self.layout = self._pool.known(self._layout_on(page, tuple(places)))
        self.writes_elsewhere = bool(self._written) or self.layout.by_target

    def _layout_on(self, page: Page, places: tuple[Place, ...]) -> BatchLayout:
        request = self.request
        return BatchLayout(
            self._pool.number(page.block),
            request.num_rows,
            request.horizon,
            request.infos,
            self._rows.state_width,
            places,
            by_source=request.slots is not None,
            by_target=request.slots is not None and not self._commit_here,
            unchecked=request.unchecked,
            single=request.single,
        )

    def _place(self, places: list[Place], name: str, array: np.ndarray) -> bool:
        """Give workers an array in place, if it is in shared memory."""
        found = SharedBlock.of(array)
        if found is None:
            return False
        block, offset = found
        self.blocks += (block,)
        number = self._pool.number(block)
        places.append(Place(name, number, offset, array.shape, array.dtype.str, array.strides))
        return True

    def results(self) -> RowResults:
        """Return the results: views of the page that the caller keeps, or copies."""
        request, given = self.request, self._written
        if self._commit_here and request.slots is not None:
            # All rows are done: now targets may be written over the rows that others began at.
            request.slots.store.rows[request.slots.targets] = self.batch.states_out
        if request.out:
            # Results that workers could not write in place are copied once to the caller's arrays.
            given = {name: self.batch.field(name) for name in request.out} | {**given}
        if self._page is not None and self._pages.may_lease(self._size):
            return self.batch.results(self._page.lease(), given=given)
        return self.batch.results(copy=True, given=given)

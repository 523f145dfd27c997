"""SharedBatch: memory of one batch, in a page or in arrays of the caller."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np

from plangym_ext.arrays.short_memory import told_of_memory
from plangym_ext.arrays.storage import SharedBlock
from plangym_ext.core.results import RowResults
from plangym_ext.core.rows import RowBatch, RowLayout, outgrown
from plangym_ext.errors import StorageError
from plangym_ext.workers.batch_layout import BatchLayout, Place, lines_bytes, worker_lines
from plangym_ext.workers.batch_rows import Page, Pages, PageViews, Rows
from plangym_ext.workers.worker_pool import WorkerPool


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
            # What the workers could not write is copied once, to where the caller wants it.
            given = {name: self.batch.field(name) for name in request.out} | {**given}
        if self._page is not None and self._pages.may_lease(self._size):
            return self.batch.results(self._page.lease(), given=given)
        return self.batch.results(copy=True, given=given)

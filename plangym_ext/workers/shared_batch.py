"""SharedBatch: memory of one batch, in a page or in arrays of the caller."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from plangym_ext.arrays.short_memory import told_of_memory
from plangym_ext.arrays.storage import SharedBlock
from plangym_ext.core.results import RowResults
from plangym_ext.core.row_request import RowRequest
from plangym_ext.core.rows import RowBatch, RowLayout, outgrown
from plangym_ext.errors import StorageError
from plangym_ext.workers.batch_layout import BatchLayout, Place, lines_bytes, worker_lines
from plangym_ext.workers.pages import Page, PageViews
from plangym_ext.workers.worker_pool import WorkerPool


class SharedBatch:
    """The memory of one request, described for workers; `load` writes the inputs to it.

    States that lie in shared memory already (results of an earlier batch, slots) are
    read where they are, and shared arrays given as `out` are written in place.

    Args:
        pool: whose workers run the request.
        rows: layout of their rows.
        request: what they run.

    Attributes:
        batch: views of it in this process.
        lines: `[W, 8]` int64, what workers say of themselves; see `worker_lines`.
        blocks: what workers have to map; held, so that none is closed meanwhile.
        layout: what workers are told.
        writes_elsewhere: whether workers write to memory that is not the page.
    """

    batch: RowBatch
    lines: np.ndarray
    layout: BatchLayout

    def __init__(self, pool: WorkerPool, rows: RowLayout, request: RowRequest) -> None:
        self._pool, self._rows, self._request = pool, rows, request
        self._page: Page | None = None
        self._pinned = False
        self.blocks: list[SharedBlock] = []
        self.writes_elsewhere = False
        #: Whether rows begin where others end: what they read must outlast the batch, in case
        #: a worker dies, so the targets are written when all is done.
        self._commit_here = False
        #: Results that workers write where the caller wants them.
        self._written: dict[str, np.ndarray] = {}

    def load(self) -> None:
        """Take a page, and copy the inputs in that do not lie in shared memory already.

        Raises:
            ValueError: an array given for states is too narrow for them now.
        """
        request = self._request
        kind = request.infos, request.unchecked, request.single
        shape = (request.num_rows, request.horizon, *kind, self._rows.state_width)
        try:
            self._page = page = self._pool.pages.take(shape, self._nbytes)
        except StorageError:
            name = self._pool.workers[0].describe()["name"]
            with told_of_memory("step_batch", request.num_rows, name, self._nbytes()):
                raise
        views = page.views.get(shape) or self._view(page, shape)
        self.batch, self.lines, self._size = views.batch, views.lines, views.nbytes
        # Held from here on: a block that is closed meanwhile could not be mapped by a new worker.
        self.blocks.append(page.block)
        if request.out or request.slots is not None or SharedBlock.of(request.states) is not None:
            self._load_placed(page)
        else:
            self.batch.load(request)
            self.layout = views.layout = self._pool.known(views.layout or self._layout(page, ()))

    def _nbytes(self) -> int:
        _, size = self._rows.offsets(self._request.num_rows, self._request.horizon)
        return size + lines_bytes(len(self._pool.workers))

    def _view(self, page: Page, shape: Hashable) -> PageViews:
        """Make the views of a page for the shape of the request."""
        request, memory = self._request, page.memory
        batch = RowBatch(self._rows, request.num_rows, request.horizon, memory, infos=request.infos)
        lines = worker_lines(memory, len(self._pool.workers))
        return page.keep(shape, PageViews(batch, lines, self._nbytes()))

    def _load_placed(self, page: Page) -> None:
        """Find what need not be copied, and load the rest."""
        request, slots, states = self._request, self._request.slots, self._request.states
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
        self.layout = self._pool.known(self._layout(page, tuple(places)))
        self.writes_elsewhere = bool(self._written) or self.layout.by_target

    def _layout(self, page: Page, places: tuple[Place, ...]) -> BatchLayout:
        request = self._request
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
        self.blocks.append(block)
        number = self._pool.number(block)
        places.append(Place(name, number, offset, array.shape, array.dtype.str, array.strides))
        return True

    def results(self) -> RowResults:
        """Return the results: views of the page that the caller keeps, or copies."""
        slots = self._request.slots
        if self._commit_here:
            assert slots is not None
            # All rows are done: now targets may be written over the rows that others began at.
            slots.store.rows[slots.targets] = self.batch.states_out
        given: Mapping[str, np.ndarray] = self._written
        if self._request.out:
            # What the workers could not write is copied once, to where the caller wants it.
            given = {name: self.batch.field(name) for name in self._request.out} | self._written
        if self._pool.pages.may_lease(self._size):
            assert self._page is not None
            return self.batch.results(self._page.lease(), given=given)
        return self.batch.results(copy=True, given=given)

    def action(self, row: int) -> Any:
        """Return the action of a row, or its actions if it plays several; fresh."""
        parts = tuple(actions[row].copy() for actions in self.batch.actions)
        action = self._rows.action.join(parts)
        return action[0] if self._request.horizon == 1 and self._rows.action.is_flat else action

    def state(self, row: int) -> np.ndarray:
        """Return fresh `[S]` uint8: where a row begins."""
        slots = self._request.slots
        source = row if slots is None else int(slots.sources[row])
        state: np.ndarray = self._request.states[source].copy()
        return state

    def release(self) -> None:
        """Release the page, unless results are views of it; `load` may have failed."""
        if self._page is not None:
            self._page.busy = False
        self.blocks.clear()
        if self._pinned and self._request.slots is not None:
            self._pinned = False
            self._request.slots.store.pins -= 1

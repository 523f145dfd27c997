"""Where the arrays of one batch lie: in a page, or where the caller has or wants them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from plangym_ext.arrays.storage import SharedBlock
from plangym_ext.core.row_request import RowRequest
from plangym_ext.core.rows import RowBatch, RowLayout, RowResults, outgrown
from plangym_ext.vectorization.crew import Crew
from plangym_ext.vectorization.rows_message import Place, RowsMessage, worker_lines

#: Shapes of batches whose views a page keeps.
_MAX_SHAPES = 64


class BatchMemory:
    """The memory of one request, loaded and described for workers.

    States that lie in shared memory already (results of an earlier batch, slots) are
    read where they are, and shared arrays given as `out` are written in place.

    Args:
        crew: whose workers run the request.
        layout: of their rows.
        request: what they run.

    Attributes:
        batch: views of it in this process.
        lines: `[W, 8]` int64, what workers say of themselves; see `worker_lines`.
        blocks: what workers have to map; held, so that none is closed meanwhile.
        message: what workers are told.
        writes_elsewhere: whether workers write to memory that is not the page.
    """

    def __init__(self, crew: Crew, layout: RowLayout, request: RowRequest) -> None:
        needed = (request.num_rows, layout.state_width)
        if (given := request.out.get("states_out")) is not None and given.shape != needed:
            raise outgrown(needed, given.shape)
        self._crew, self._layout, self._request = crew, layout, request
        self._size = crew.page_size(layout, request.num_rows, request.horizon)
        self._page = crew.pages.take(self._size)
        self.batch = self._kept_batch()
        self.lines = worker_lines(self._page.memory, len(crew.workers))
        self.blocks = [self._page.block]
        self._places: list[Place] = []
        states, slots = request.states, request.slots
        whole = states.shape[1] == layout.state_width and states.flags.c_contiguous
        # Rows may have to be run again, so nothing may be written where they begin.
        apart = not any(np.may_share_memory(states, array) for array in request.out.values())
        placed = whole and apart and self._place("states_in", states)
        #: Rows that begin where others end: what they read must outlast the batch, in case
        #: a worker dies, so the targets are written when all is done.
        self._commit_here = False
        if slots is not None:
            assert placed or not request.num_rows, "slots lie in shared memory"
            self._commit_here = bool(np.isin(slots.targets, slots.sources).any())
            if not self._commit_here:
                self._place("store", states)
            self.batch.field("sources")[...] = slots.sources
            self.batch.field("targets")[...] = slots.targets
        #: Results that workers write where the caller wants them.
        self._written = {
            name: array
            for name, array in request.out.items()
            if (name != "states_out" or array.flags.c_contiguous) and self._place(name, array)
        }
        self.batch.load(request, states=not placed)
        self.message = RowsMessage(
            crew.number(self._page.block),
            request.num_rows,
            request.horizon,
            request.infos,
            tuple(self._places),
            by_source=slots is not None,
            by_target=slots is not None and not self._commit_here,
            unchecked=request.unchecked,
        )
        self.writes_elsewhere = bool(self._written) or self.message.by_target
        if slots is not None:
            slots.store.pins += 1

    def _kept_batch(self) -> RowBatch:
        """Views of the page, made once for every shape of batch."""
        request = self._request
        key = (request.num_rows, request.horizon, request.infos, self._layout.state_width)
        kept = self._page.views.get(key)
        if kept is None:
            if len(self._page.views) >= _MAX_SHAPES:
                self._page.views.clear()
            kept = self._page.views[key] = RowBatch(
                self._layout,
                request.num_rows,
                request.horizon,
                self._page.memory,
                infos=request.infos,
            )
        assert isinstance(kept, RowBatch)
        return kept

    def _place(self, name: str, array: np.ndarray) -> bool:
        """Let workers use an array where it lies, if that is shared memory."""
        found = SharedBlock.of(array)
        if found is None:
            return False
        block, offset = found
        self.blocks.append(block)
        number = self._crew.number(block)
        self._places.append(
            Place(name, number, offset, array.shape, array.dtype.str, array.strides)
        )
        return True

    def results(self) -> RowResults:
        """What came back: views of the page that the caller keeps, or copies."""
        slots = self._request.slots
        if self._commit_here:
            assert slots is not None
            slots.store.rows[slots.targets] = self.batch.states_out
        given: Mapping[str, np.ndarray] = self._written
        if self._request.out:
            # What the workers could not write is copied once, to where the caller wants it.
            given = {name: self.batch.field(name) for name in self._request.out} | self._written
        if self._crew.pages.may_lease(self._size):
            return self.batch.results(self._page.lease(), given=given)
        return self.batch.results(copy=True, given=given)

    def release(self) -> None:
        """Let another batch use the page, unless results look at it; called once."""
        self._page.busy = False
        self.blocks.clear()
        if self._request.slots is not None:
            self._request.slots.store.pins -= 1

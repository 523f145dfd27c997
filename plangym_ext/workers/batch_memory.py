"""Where the arrays of one batch lie: in a page, or where the caller has or wants them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from plangym_ext.arrays.storage import SharedBlock
from plangym_ext.core.row_request import RowRequest
from plangym_ext.core.rows import RowBatch, RowLayout, RowResults, outgrown
from plangym_ext.workers.rows_message import Place, RowsMessage, worker_lines
from plangym_ext.workers.worker_pool import Plan, WorkerPool

#: Shapes of batches whose views a page keeps.
_MAX_SHAPES = 64


@dataclass
class _Kept:
    """What a page keeps of one shape of batch.

    Attributes:
        batch: views of the page.
        lines: `[W, 8]` int64, of what workers say of themselves.
        plan: of batches of which nothing lies elsewhere, if there was one.
    """

    batch: RowBatch
    lines: np.ndarray
    plan: Plan | None = None


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
        plan: what workers are told.
        writes_elsewhere: whether workers write to memory that is not the page.
    """

    def __init__(self, crew: WorkerPool, layout: RowLayout, request: RowRequest) -> None:
        self._crew, self._layout, self._request = crew, layout, request
        if request.out and (given := request.out.get("states_out")) is not None:
            needed = (request.num_rows, layout.state_width)
            if given.shape != needed:
                raise outgrown(needed, given.shape)
        self._size = crew.page_size(layout, request.num_rows, request.horizon)
        self._page = crew.pages.take(self._size)
        kept = self._kept()
        self.batch, self.lines = kept.batch, kept.lines
        self.blocks = [self._page.block]
        #: Rows that begin where others end: what they read must outlast the batch, in case
        #: a worker dies, so the targets are written when all is done.
        self._commit_here = False
        #: Results that workers write where the caller wants them.
        self._written: dict[str, np.ndarray] = {}
        if request.out or request.slots is not None or SharedBlock.of(request.states) is not None:
            self.plan = self._placed_plan()
        else:
            self.batch.load(request)
            if kept.plan is None or kept.plan.forgotten:
                kept.plan = crew.plan(self._message(()))
            self.plan = kept.plan
        self.writes_elsewhere = bool(self._written) or self.plan.message.by_target
        if request.slots is not None:
            request.slots.store.pins += 1

    def _kept(self) -> _Kept:
        """What the page keeps of the shape of the request, made once."""
        request, page = self._request, self._page
        width = self._layout.state_width
        kind = request.infos, request.unchecked, request.single
        key = (request.num_rows, request.horizon, *kind, width)
        kept = page.views.get(key)
        if kept is None:
            if len(page.views) >= _MAX_SHAPES:
                page.views.clear()
            kept = page.views[key] = _Kept(
                RowBatch(
                    self._layout,
                    request.num_rows,
                    request.horizon,
                    page.memory,
                    infos=request.infos,
                ),
                worker_lines(page.memory, len(self._crew.workers)),
            )
        assert isinstance(kept, _Kept)
        if page.user is not kept:
            kept.batch.forget_inputs()
            page.user = kept
        return kept

    def _placed_plan(self) -> Plan:
        """Find what need not be copied, and load the rest."""
        request, slots, states = self._request, self._request.slots, self._request.states
        places: list[Place] = []
        whole = states.shape[1] == self._layout.state_width and states.flags.c_contiguous
        # Rows may have to be run again, so nothing may be written where they begin.
        apart = not any(np.may_share_memory(states, array) for array in request.out.values())
        placed = whole and apart and self._place(places, "states_in", states)
        if slots is not None:
            assert placed or not request.num_rows, "slots lie in shared memory"
            self._commit_here = bool(np.isin(slots.targets, slots.sources).any())
            if not self._commit_here:
                self._place(places, "store", states)
            self.batch.field("sources")[...] = slots.sources
            self.batch.field("targets")[...] = slots.targets
        self._written = {
            name: array
            for name, array in request.out.items()
            if (name != "states_out" or array.flags.c_contiguous)
            and self._place(places, name, array)
        }
        self.batch.load(request, states=not placed)
        return self._crew.plan(self._message(tuple(places)))

    def _message(self, places: tuple[Place, ...]) -> RowsMessage:
        request = self._request
        return RowsMessage(
            self._crew.number(self._page.block),
            request.num_rows,
            request.horizon,
            request.infos,
            places,
            by_source=request.slots is not None,
            by_target=request.slots is not None and not self._commit_here,
            unchecked=request.unchecked,
            single=request.single,
        )

    def _place(self, places: list[Place], name: str, array: np.ndarray) -> bool:
        """Let workers use an array where it lies, if that is shared memory."""
        found = SharedBlock.of(array)
        if found is None:
            return False
        block, offset = found
        self.blocks.append(block)
        number = self._crew.number(block)
        places.append(Place(name, number, offset, array.shape, array.dtype.str, array.strides))
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
            # The caller may write to it.
            self._page.user = None
            return self.batch.results(self._page.lease(), given=given)
        return self.batch.results(copy=True, given=given)

    def action(self, row: int) -> Any:
        """The action of a row, or its actions if it plays several."""
        parts = tuple(actions[row].copy() for actions in self.batch.actions)
        action = self._layout.action.join(parts)
        return action[0] if self._request.horizon == 1 and self._layout.action.is_flat else action

    def state(self, row: int) -> np.ndarray:
        """Fresh `[S]` uint8: where a row begins."""
        slots = self._request.slots
        source = row if slots is None else int(slots.sources[row])
        state: np.ndarray = self._request.states[source].copy()
        return state

    def release(self) -> None:
        """Let another batch use the page, unless results look at it; called once."""
        self._page.busy = False
        self.blocks.clear()
        if self._request.slots is not None:
            self._request.slots.store.pins -= 1

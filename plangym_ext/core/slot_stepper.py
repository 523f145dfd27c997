"""SlotStepper: batch steps from slot to slot of a state store."""

from __future__ import annotations

import dataclasses
import functools
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from plangym_ext.arrays.buffer import Storage
from plangym_ext.core.out_fields import OutFields
from plangym_ext.core.pending import Pending
from plangym_ext.core.results import RowResults, Transitions
from plangym_ext.core.row_request import (
    RowRequest,
    SlotRequest,
    StateStore,
    checked_dt,
    checked_infos,
)
from plangym_ext.core.row_stepper import RowStepper
from plangym_ext.errors import InvalidOption


class SlotStepper(RowStepper):
    """A `RowStepper` whose rows may also begin and end in the slots of `states`."""

    #: Where the slots lie.
    slot_storage: Storage = "local"

    def __init__(self) -> None:
        super().__init__()
        self._store: StateStore | None = None

    @property
    def states(self) -> StateStore:
        """State slots of `step_slots`: states stay where they are stepped, without copies."""
        # At first use: most envs are never stepped by slots, and theirs may be shared memory.
        if self._store is None:
            self._store = StateStore(
                self.state_width,
                self.slot_storage,
                self.checked_states,
                self._one_caller,
                self._end_abandoned,
            )
        return self._store

    def step_slots(
        self,
        actions: Any,
        src: Any,
        dst: Any,
        dt: int | np.ndarray = 1,
        *,
        infos: str = "numeric",
        out: Mapping[str, Any] | None = None,
    ) -> Transitions:
        """Advance row i from the state in slot `src[i]`, and put the state after it in `dst[i]`.

        All rows read before any writes: a slot may be source and target at once. After an
        error, what the targets hold is undefined if none of them is a source, else unchanged.

        Args:
            actions: as in `step_batch`.
            src: `[B]` int slots of `env.states`; one may occur several times.
            dst: `[B]` int slots, distinct.
            dt: as in `step_batch`.
            infos: as in `step_batch`.
            out: as in `step_batch`.

        Returns:
            As `step_batch`, without the states.

        Raises:
            IndexError: a slot is not in use, or a target is named twice.
            InvalidAction, ConcurrentUse: as `step_batch`.
        """
        with self._one_caller:
            request, finish = self._slot_request(actions, src, dst, dt, infos, out)
            return finish(self._run(request))

    def step_slots_async(
        self,
        actions: Any,
        src: Any,
        dst: Any,
        dt: int | np.ndarray = 1,
        *,
        infos: str = "numeric",
        out: Mapping[str, Any] | None = None,
    ) -> Pending[Transitions]:
        """Begin `step_slots` and return at once; `wait()` gives its result.

        Shapes, dtypes and whose memory the result is: as of `step_slots`.

        Of batches in flight, none may write a slot that another reads or writes. What the
        targets of a batch hold that failed, or that was not waited for, is undefined.
        """
        with self._one_caller:
            request, finish = self._slot_request(actions, src, dst, dt, infos, out)
            return self._start(request).then(finish, self._one_caller)

    def _slot_request(
        self, actions: Any, src: Any, dst: Any, dt: Any, infos: str, out: Mapping[str, Any] | None
    ) -> tuple[RowRequest, Callable[[RowResults], Transitions]]:
        """Return the checked request of a `step_slots`, and what makes its result."""
        store = self.states
        # First: a widened env writes states that the old slots have no room for.
        store.widen(self.state_width)
        sources = store.checked(src, "step_slots: src")
        # Distinct: of two rows with one target it would be chance which one stays.
        targets = store.checked(dst, "step_slots: dst", distinct=True)
        if len(targets) != len(sources):
            raise InvalidOption(
                f"step_slots: dst must name as many slots as src, {len(sources)}; "
                f"got {len(targets)}"
            )
        leaves = self._checked_actions(actions, (len(sources),), "step_slots")
        fields = OutFields(self.layout, out, (len(sources),), "step_slots")
        request = RowRequest(
            # [B, 1, *act]: a step is a sequence of one action.
            tuple(a[:, None] for a in leaves),
            store.rows,
            checked_dt(dt, len(sources), "step_slots"),
            infos=checked_infos(infos, "step_slots"),
            out=fields.arrays,
            slots=SlotRequest(store, sources, targets),
        )

        def finish(found: RowResults) -> Transitions:
            return fields.shown(Transitions, found)

        return request, finish


class LocalStepper(SlotStepper):
    """A `SlotStepper` whose rows run in this process; they are done when a call returns."""

    @abstractmethod
    def _run_rows(self, request: RowRequest) -> RowResults:
        """Run checked rows that name no slots; see `RowStepper._run`."""

    def _run(self, request: RowRequest) -> RowResults:
        if (slots := request.slots) is None:
            return self._run_rows(request)
        # A copy: all rows are read before any slot is written.
        states = request.states[slots.sources]
        found = self._run_rows(dataclasses.replace(request, states=states, slots=None))
        # The run itself may have widened the rows.
        slots.store.widen(found.states.shape[1])
        slots.store.rows[slots.targets] = found.states
        return found

    def _start(self, request: RowRequest) -> Pending[RowResults]:
        return Pending.done_by(functools.partial(self._run, request))

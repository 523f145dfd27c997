"""RowStepper: `step_batch` and its relatives, common to all backends."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, overload

import numpy as np
from gymnasium import spaces

from plangym_ext.arrays.actions import check_actions
from plangym_ext.core.one_caller import OneCaller
from plangym_ext.core.out_fields import OutFields
from plangym_ext.core.pending import Pending
from plangym_ext.core.results import Rollouts, RowResults, StateTransitions, Transitions
from plangym_ext.core.row_request import (
    ONE_STEP,
    ContinuedRows,
    RowRequest,
    checked_dt,
    checked_infos,
    one_array,
)
from plangym_ext.core.rows import RowLayout
from plangym_ext.errors import BatchPending, InvalidAction
from plangym_ext.states.envelope import Envelope


class RowStepper(ABC):
    """Steps any number of rows, from given states or from each row's present state.

    Attributes:
        layout: what a row holds.
        envelope: seals and checks its states.
        autoreset: whether a row that ended is reset before it is continued.
    """

    layout: RowLayout
    envelope: Envelope
    autoreset: bool

    #: Whether those who run rows look at what is in the states themselves.
    rows_are_checked_where_they_run = False

    def __init__(self) -> None:
        self._one_caller = OneCaller(type(self).__name__)
        self._continued = ContinuedRows()
        #: The last batch that was begun without states.
        self._moving: weakref.ref[Pending[Any]] | None = None

    @abstractmethod
    def _run(self, request: RowRequest) -> RowResults:
        """Run checked rows.

        `request.states` stays as it is. The arrays that come belong to the caller, but for
        those of `request.out`, which were given.
        """

    @abstractmethod
    def _start(self, request: RowRequest) -> Pending[RowResults]:
        """Begin to run checked rows; a backend that cannot is done when this returns."""

    @abstractmethod
    def _first_state(self) -> np.ndarray:
        """Return the `[S]` state at which a row begins that was not stepped before.

        Raises:
            ResetNeeded: there is none yet.
        """

    @abstractmethod
    def widen(self, width: int) -> None:
        """Make rows `width` bytes wide, for states that outgrew them.

        Narrower states stay good.
        """

    def wider(self, excess: int) -> int:
        """Return the row width for states that need `excess` bytes more, with room to grow."""
        # Half as much again: to widen makes every view and every worker's memory anew.
        return (self.layout.state_width + excess) * 3 // 2

    @property
    def observation_space(self) -> spaces.Space[Any]:
        """Observation space of one row."""
        return self.layout.obs.space

    @property
    def action_space(self) -> spaces.Space[Any]:
        """Action space of one row."""
        return self.layout.action.space

    @property
    def tells_masks(self) -> bool:
        """Whether infos have a mask of legal actions: `infos["action_mask"]`."""
        return any(column.key == "action_mask" for column in self.layout.info)

    @property
    def state_width(self) -> int:
        """S, the bytes of one state row."""
        return self.layout.state_width

    # Batches --------------------------------------------------------------------

    @overload
    def step_batch(
        self,
        actions: Any,
        states: None = None,
        dt: int | np.ndarray = 1,
        return_state: None = None,
        *,
        infos: str = "numeric",
        out: Mapping[str, Any] | None = None,
    ) -> Transitions: ...
    @overload
    def step_batch(
        self,
        actions: Any,
        states: Any,
        dt: int | np.ndarray = 1,
        return_state: None = None,
        *,
        infos: str = "numeric",
        out: Mapping[str, Any] | None = None,
    ) -> StateTransitions: ...
    @overload
    def step_batch(
        self,
        actions: Any,
        states: Any = None,
        dt: int | np.ndarray = 1,
        *,
        return_state: bool | None,
        infos: str = "numeric",
        out: Mapping[str, Any] | None = None,
    ) -> Transitions | StateTransitions: ...
    def step_batch(
        self,
        actions: Any,
        states: Any = None,
        dt: int | np.ndarray = 1,
        return_state: bool | None = None,
        *,
        infos: str = "numeric",
        out: Mapping[str, Any] | None = None,
    ) -> Transitions | StateTransitions:
        """Restore B states and advance row i by `dt[i]` control steps.

        Row i of the result depends on row i of the inputs alone, whichever worker
        runs it.

        Args:
            actions: `[B, *act]`, dtype of `action_space`; held for all steps.
            states: `[B, S]` uint8 from `get_state`, or None to continue rows 0 to
                B - 1 where they are.
            dt: int or `[B]` int, at least 1. Control steps, each `frameskip` env
                steps; fewer are taken if the episode ends.
            return_state: whether the result carries the new states; None means
                that it does if `states` were given.
            infos: "numeric" for the fields that are numbers, "all" for every field (they
                are pickled), "none" for the counts alone.
            out: arrays that results are written to, by the name of the result's field:
                numpy arrays or `Array`s (shared ones are written by the workers
                themselves), nested as the space for `obs`. Undefined after an error.

        Returns:
            Named tuple in plangym's order: `[states,] obs, rewards (summed over the
            steps taken), terminateds, truncateds, infos`; fresh arrays, but for those
            of `out`.

        Raises:
            InvalidAction: length, shape, dtype or range does not match.
            StateError: a state is damaged or belongs to another env.
            ResetNeeded: no states were given and the env was never reset.
            BatchPending: no states were given, and the rows are being stepped.
            ConcurrentUse: another thread is in the middle of a call.

        Source: signature after plangym's `PlanEnv.step_batch`.
        """
        with self._one_caller:
            request, finish = self._step_request(actions, states, dt, return_state, infos, out)
            return finish(self._run(request))

    @overload
    def step_batch_async(
        self,
        actions: Any,
        states: None = None,
        dt: int | np.ndarray = 1,
        return_state: None = None,
        *,
        infos: str = "numeric",
        out: Mapping[str, Any] | None = None,
    ) -> Pending[Transitions]: ...
    @overload
    def step_batch_async(
        self,
        actions: Any,
        states: Any,
        dt: int | np.ndarray = 1,
        return_state: None = None,
        *,
        infos: str = "numeric",
        out: Mapping[str, Any] | None = None,
    ) -> Pending[StateTransitions]: ...
    @overload
    def step_batch_async(
        self,
        actions: Any,
        states: Any = None,
        dt: int | np.ndarray = 1,
        *,
        return_state: bool | None,
        infos: str = "numeric",
        out: Mapping[str, Any] | None = None,
    ) -> Pending[Transitions | StateTransitions]: ...
    def step_batch_async(
        self,
        actions: Any,
        states: Any = None,
        dt: int | np.ndarray = 1,
        return_state: bool | None = None,
        *,
        infos: str = "numeric",
        out: Mapping[str, Any] | None = None,
    ) -> Pending[Any]:
        """Begin `step_batch` and return at once; `wait()` gives its result.

        Shapes, dtypes and whose memory the result is: as of `step_batch`.

        Several batches with states may be in flight, of one without states only one. The
        states must not be written to until the batch is done.
        """
        with self._one_caller:
            request, finish = self._step_request(actions, states, dt, return_state, infos, out)
            # Not bound to a name: a stored traceback would keep the batch, which has to be gone
            # at once when its last holder is.
            return self._remembered(
                self._start(request).then(finish, self._one_caller), moves_rows=states is None
            )

    def rollout_batch(
        self,
        actions: Any,
        states: Any,
        *,
        infos: str = "numeric",
        out: Mapping[str, Any] | None = None,
    ) -> Rollouts:
        """Restore B states once and play H actions from each, stopping at an ending.

        Args:
            actions: `[B, H, *act]`, dtype of `action_space`.
            states: `[B, S]` uint8 from `get_state`.
            infos: as in `step_batch`.
            out: as in `step_batch`, with the fields of `Rollouts`.

        Returns:
            `Rollouts` of fresh arrays, but for those of `out`.

        Raises:
            InvalidAction, StateError, ConcurrentUse: as `step_batch`.
        """
        with self._one_caller:
            rows, unchecked = self._batch_states(states, "rollout_batch")
            leaves = self._checked_actions(actions, (len(rows), -1), "rollout_batch")
            if leaves[0].shape[1] == 0:
                raise InvalidAction("rollout_batch: actions must be [B, H] with H >= 1; got H = 0")
            targets = OutFields(self.layout, out, leaves[0].shape[:2], "rollout_batch")
            request = RowRequest(
                leaves,
                rows,
                ONE_STEP,
                infos=checked_infos(infos, "rollout_batch"),
                out=targets.arrays,
                unchecked=unchecked,
            )
            return targets.shown(Rollouts, self._run(request))

    # How they are asked for -----------------------------------------------------

    def _step_request(
        self,
        actions: Any,
        states: Any,
        dt: Any,
        return_state: bool | None,
        infos: str,
        out: Mapping[str, Any] | None,
    ) -> tuple[RowRequest, Callable[[RowResults], Transitions | StateTransitions]]:
        """Return the checked request of a `step_batch`, and what makes its result."""
        reset_first, unchecked, goes_on = None, "", states is None
        if goes_on:
            leaves = self._checked_actions(actions, (-1,), "step_batch")
            rows, reset_first = self._continued_rows(len(leaves[0]))
        else:
            rows, unchecked = self._batch_states(states, "step_batch")
            leaves = self._checked_actions(actions, (len(rows),), "step_batch")
        layout = self.layout
        targets = None if out is None else OutFields(layout, out, (len(rows),), "step_batch")
        # As plangym: who passes states gets states.
        wants_states = not goes_on if return_state is None else bool(return_state)
        request = RowRequest(
            # A step is a sequence of one action: `[B, 1, *act]`.
            tuple(a[:, None] for a in leaves),
            rows,
            ONE_STEP if type(dt) is int and dt == 1 else checked_dt(dt, len(rows), "step_batch"),
            reset_first,
            infos=infos if infos == "numeric" else checked_infos(infos, "step_batch"),
            wants_states=wants_states,
            out={} if targets is None else targets.arrays,
            unchecked=unchecked,
        )

        def finish(found: RowResults) -> Transitions | StateTransitions:
            show = (layout if targets is None else targets).shown  # first, as it may refuse
            shown = show(StateTransitions, found) if wants_states else show(Transitions, found)
            if goes_on:
                self._continued.move(found, shared=wants_states or "states_out" in request.out)
            return shown

        return request, finish

    def _continued_rows(self, num_rows: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Return where rows that are stepped without states are, and which to reset first."""
        self._check_rows_free("step_batch")
        self._continued.first(num_rows, self._first_state)
        ended = self._continued.ended[:num_rows]
        # A copy: `ended` moves on while the batch may still be in flight.
        reset_first = ended.copy() if self.autoreset and ended.any() else None
        return self._continued.states[:num_rows], reset_first

    def _end_abandoned(self) -> None:  # noqa: B027 - most backends have none
        """Complete batches whose results were abandoned."""

    def _remembered(self, pending: Pending[Any], *, moves_rows: bool) -> Pending[Any]:
        """Return the same batch; while it is open, nothing else may touch rows that it moves."""
        if moves_rows:
            # Weak: a batch that was dropped without a wait must not block the rows for ever.
            self._moving = weakref.ref(pending)
        return pending

    def _check_rows_free(self, where: str) -> None:
        """Refuse to touch the rows while a batch without states is in flight."""
        pending = self._moving() if self._moving is not None else None
        if pending is not None and pending.open:
            raise BatchPending(
                f"{where}: a batch without states is in flight and will move the rows. Wait for "
                "it first, or pass states."
            )

    # Checks and the rows that continue -----------------------------------------

    def checked_states(self, states: Any, where: str) -> np.ndarray:
        """Return the states as `[B, S]` uint8 after a check that they are rows of this env.

        Args:
            states: `[B, S]` uint8, or a sequence of `[S]` rows, of which some may be
                narrower: zeros may follow a row.
            where: method name, for messages.

        Raises:
            StateError: a state is damaged or belongs to another env.
            ValueError: not rows of bytes, or None among them.
        """
        if isinstance(states, list | tuple) and not states:
            # No rows say nothing of how wide they are.
            states = np.zeros((0, self.state_width), np.uint8)
        rows = self.envelope.check(one_array(states, where), where)
        if rows.shape[1] > self.layout.state_width:
            # Captured by an equal env that has widened its rows.
            self.widen(rows.shape[1])
        return rows

    def _batch_states(self, states: Any, where: str) -> tuple[np.ndarray, str]:
        """Return a batch's states, and the method name for errors if workers check them."""
        # What was cut off a narrower row would be zeros where it runs.
        if not self.rows_are_checked_where_they_run or getattr(states, "shape", ())[1:] != (
            self.layout.state_width,
        ):
            return self.checked_states(states, where), ""
        plain = type(states) is np.ndarray and states.dtype == np.uint8 and states.strides[1] == 1
        return states if plain else self.envelope.shaped(states, where), where

    def _checked_actions(
        self, actions: Any, batch_shape: tuple[int, ...], where: str
    ) -> tuple[np.ndarray, ...]:
        """Return the leaf arrays of a batch of actions; see `check_actions`."""
        if isinstance(actions, list) and not actions and len(batch_shape) == 1:
            # As numpy has it, an empty list is one of floats.
            action = self.layout.action
            actions = action.join(
                tuple(np.zeros((0, *leaf.shape), leaf.dtype) for leaf in action.leaves)
            )
        return check_actions(self.layout.action, actions, batch_shape, where)

    def set_row_states(self, states: np.ndarray) -> None:
        """Continue rows 0 to B - 1 from `[B, S]` states; later rows do not move.

        Raises:
            StateError: a state is damaged or belongs to another env.
        """
        self._check_rows_free("set_state")
        rows = self.checked_states(states, "set_state")
        # The rows are written in place later on; the caller keeps its array.
        self._continued.keep(rows.copy(), np.zeros(len(rows), bool))

"""Stepping rows: what a batch call checks, remembers and returns on every backend."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from gymnasium import spaces

from plangym_ext.core.envelope import Envelope, stacked
from plangym_ext.core.results import Rollouts, StateTransitions, Transitions
from plangym_ext.core.rows import RowLayout, RowResults
from plangym_ext.core.spaces import check_actions
from plangym_ext.errors import InvalidAction


class RowStepper(ABC):
    """Steps any number of rows, from given states or from where each row is.

    Attributes:
        layout: what a row holds.
        envelope: seals and checks its states.
        autoreset: whether a row that ended is reset before it is continued.
    """

    layout: RowLayout
    envelope: Envelope
    autoreset: bool

    _row_states: np.ndarray | None = None
    _row_ended: np.ndarray | None = None

    @abstractmethod
    def _run_rows(
        self,
        actions: tuple[np.ndarray, ...],
        states: np.ndarray,
        dt: int | np.ndarray,
        reset_first: np.ndarray | None,
    ) -> RowResults:
        """Play `[B, H]` checked actions from `[B, S]` checked states; fresh arrays."""

    @abstractmethod
    def _first_state(self) -> np.ndarray:
        """`[S]` state at which a row begins that was not stepped before.

        Raises:
            ResetNeeded: there is none yet.
        """

    @abstractmethod
    def widen(self, width: int) -> None:
        """Make rows `width` bytes wide, for states that outgrew them.

        Narrower states stay good.
        """

    def wider(self, excess: int) -> int:
        """Row width for states that need `excess` bytes more, with room to grow."""
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
    def state_width(self) -> int:
        """S, the bytes of one state row."""
        return self.layout.state_width

    def step_batch(
        self,
        actions: Any,
        states: np.ndarray | None = None,
        dt: int | np.ndarray = 1,
        return_state: bool | None = None,
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

        Returns:
            Named tuple of fresh arrays, in plangym's order: `[states,] obs, rewards
            (summed over the steps taken), terminateds, truncateds, infos`.

        Raises:
            InvalidAction: length, shape, dtype or range does not match.
            StateError: a state is damaged or belongs to another env.
            ResetNeeded: no states were given and the env was never reset.

        Source: signature after plangym's `PlanEnv.step_batch`.
        """
        reset_first = None
        if states is None:
            leaves = check_actions(self.layout.action, actions, (-1,), "step_batch")
            rows, reset_first = self._continued_rows(len(leaves[0]))
        else:
            rows = self.checked_states(states, "step_batch")
            leaves = check_actions(self.layout.action, actions, (len(rows),), "step_batch")
        held = self._checked_dt(dt, len(rows), "step_batch")
        found = self._run_rows(tuple(a[:, None] for a in leaves), rows, held, reset_first)
        if states is None:
            self._keep_rows(found.states, found.terminated | found.truncated)
        result = Transitions(
            self.layout.obs.join(found.obs),
            found.rewards[:, 0],
            found.terminated,
            found.truncated,
            found.infos,
        )
        if return_state or (return_state is None and states is not None):
            # The rows that go on keep the array itself; the caller may write to a copy.
            mine = found.states.copy() if states is None else found.states
            return StateTransitions(mine, *result)
        return result

    def rollout_batch(self, actions: Any, states: np.ndarray) -> Rollouts:
        """Restore B states once and play H actions from each, stopping at an ending.

        Args:
            actions: `[B, H, *act]`, dtype of `action_space`.
            states: `[B, S]` uint8 from `get_state`.

        Returns:
            `Rollouts` of fresh arrays.

        Raises:
            InvalidAction, StateError: as `step_batch`.
        """
        rows = self.checked_states(states, "rollout_batch")
        leaves = check_actions(self.layout.action, actions, (len(rows), -1), "rollout_batch")
        if leaves[0].shape[1] == 0:
            raise InvalidAction("rollout_batch: actions must be [B, H] with H >= 1; got H = 0")
        found = self._run_rows(leaves, rows, 1, None)
        return Rollouts(
            found.states,
            self.layout.obs.join(found.obs),
            found.rewards,
            found.terminated,
            found.truncated,
            found.steps,
            found.infos,
        )

    # Checks and the rows that continue -----------------------------------------

    def checked_states(self, states: Any, where: str) -> np.ndarray:
        """The states as `[B, S]` uint8, if they are whole rows of this env.

        Args:
            states: `[B, S]` uint8, or a sequence of `[S]` rows, of which some may be
                narrower: zeros may follow a row.
            where: method name, for messages.

        Raises:
            StateError: a state is damaged or belongs to another env.
            ValueError: not rows of bytes, or None among them.
        """
        if isinstance(states, list | tuple):
            if any(state is None for state in states):
                index = next(i for i, state in enumerate(states) if state is None)
                raise ValueError(
                    f"{where}: states[{index}] is None; expected a state in every row. "
                    "Pass states=None to continue all rows, or a state for each."
                )
            states = stacked(states, where)
        rows = self.envelope.check(states, where)
        if rows.shape[1] > self.layout.state_width:
            # Captured by an equal env that has widened its rows.
            self.widen(rows.shape[1])
        return rows

    def _checked_dt(self, dt: Any, num_rows: int | None, where: str) -> np.ndarray:
        """`dt` as int32, of shape `()` or `[B]`; None rows stand for a single step."""
        held = np.asarray(dt)
        if held.shape not in ((), (num_rows,)) or held.dtype.kind not in "iu":
            rows = "" if num_rows is None else f" or ({num_rows},) int"
            raise ValueError(
                f"{where}: dt must be an int{rows}, control steps per row; "
                f"got {held.shape} {held.dtype}"
            )
        if held.size and (held.min() < 1 or held.max() > np.iinfo(np.int32).max):
            raise ValueError(
                f"{where}: dt must be at least 1 in every row; got {held.min()} to {held.max()}"
            )
        return held.astype(np.int32)

    def set_row_states(self, states: np.ndarray) -> None:
        """Continue rows 0 to B - 1 from `[B, S]` states; later rows stay where they are.

        Raises:
            StateError: a state is damaged or belongs to another env.
        """
        rows = self.checked_states(states, "set_state")
        self._keep_rows(rows.copy(), np.zeros(len(rows), bool))

    def _continued_rows(self, num_rows: int) -> tuple[np.ndarray, np.ndarray]:
        """States `[B, S]` of rows 0 to B - 1, and which of them to reset first."""
        known = 0 if self._row_states is None else len(self._row_states)
        if num_rows > known:
            root = self._first_state()
            fresh = np.broadcast_to(root, (num_rows - known, len(root)))
            if self._row_states is not None:
                self._row_states, fresh = equally_wide(self._row_states, fresh)
            ended = np.zeros(num_rows - known, bool)
            if self._row_states is None or self._row_ended is None:
                self._row_states, self._row_ended = fresh.copy(), ended
            else:
                self._row_states = np.concatenate([self._row_states, fresh])
                self._row_ended = np.concatenate([self._row_ended, ended])
        assert self._row_states is not None
        assert self._row_ended is not None
        return self._row_states[:num_rows], self._row_ended[:num_rows] & self.autoreset

    def _keep_rows(self, states: np.ndarray, ended: np.ndarray) -> None:
        """Rows 0 to B - 1 are now at `states`; later ones stay where they are."""
        if self._row_states is None or len(self._row_states) <= len(states):
            self._row_states, self._row_ended = states, ended
        else:
            assert self._row_ended is not None
            self._row_states, states = equally_wide(self._row_states, states)
            self._row_states[: len(states)] = states
            self._row_ended[: len(states)] = ended

    def _drop_rows(self) -> None:
        self._row_states = self._row_ended = None


def equally_wide(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two `[*, S]` arrays of states, the narrower rows followed by zeros."""
    width = max(first.shape[1], second.shape[1])
    wide = [
        rows if rows.shape[1] == width else np.pad(rows, ((0, 0), (0, width - rows.shape[1])))
        for rows in (first, second)
    ]
    return wide[0], wide[1]

"""The contract: an environment that is stepped in batches from any saved state.

`PlanEnv` checks what callers pass and shapes what they get; a backend says where
the rows run. Results are bit for bit those of the `serial` backend.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from gymnasium import spaces

from plangym_ext.core.envelope import Envelope
from plangym_ext.core.results import (
    Rollouts,
    StateTransition,
    StateTransitions,
    Transition,
    Transitions,
)
from plangym_ext.core.rows import RowLayout, RowResults
from plangym_ext.core.spaces import check_actions
from plangym_ext.errors import InvalidAction, ResetNeeded


class PlanEnv(ABC):
    """One env to play, and any number of rows to plan with.

    The env proper is moved by `reset`, `step` and `set_state`. `step_batch` with
    states and `rollout_batch` are functions of their arguments: they leave the env
    and its rows where they are. `step_batch` without states continues the rows: row
    i is an env of its own. It begins where the env is when the row is first stepped,
    and anew after a `reset`, `set_state` or `sync_states`.

    Attributes:
        name: the env's id.
        backend: which backend runs the rows: "serial" or "process".
        autoreset: whether an env or row that ended is reset before its next step.
        frameskip: env steps for which one control step holds an action.
        observation_space, action_space: of one row.
    """

    name: str
    backend: str
    autoreset: bool
    frameskip: int
    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    #: Set by a backend once the env exists.
    layout: RowLayout
    envelope: Envelope

    _row_states: np.ndarray | None = None
    _row_ended: np.ndarray | None = None

    # What a backend implements ------------------------------------------------

    @abstractmethod
    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,
        return_state: bool = True,
    ) -> tuple[Any, ...]:
        """Start a new episode; every row starts there too.

        Returns:
            `(state, obs, info)`, or `(obs, info)` if `return_state` is False.
        """

    @abstractmethod
    def step(
        self,
        action: Any,
        state: np.ndarray | None = None,
        dt: int = 1,
        return_state: bool | None = None,
    ) -> Transition | StateTransition:
        """Advance the env by `dt` control steps, from `state` if one is given.

        Without a state, an env that ended is reset afterwards if `autoreset` is on;
        the result is still that of the ending. With a state nothing is ever reset.

        Args:
            action: one action of the action space, held for all steps.
            state: `[S]` uint8 from `get_state`, or None to continue.
            dt: control steps, at least 1; each is `frameskip` env steps.
            return_state: whether the result carries the new state; None means
                that it does if `state` was given.

        Raises:
            InvalidAction: shape, dtype or range does not match the action space.
            StateError: the state is damaged or belongs to another env.
            ResetNeeded: no state was given and the env was never reset.
        """

    @abstractmethod
    def get_state(self) -> np.ndarray:
        """Fresh `[S]` uint8 array: everything that the next step reads."""

    @abstractmethod
    def _set_env_state(self, state: np.ndarray) -> None:
        """Bring the env proper to a checked `[S]` state."""

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
    def clone(self, **overrides: Any) -> Self:
        """New env with the same settings; `overrides` change some. Not its state."""

    @abstractmethod
    def render(self) -> Any:
        """Picture of the env, as its render mode says; `[H, W, 3]` uint8 for rgb_array."""

    @abstractmethod
    def close(self) -> None:
        """Release everything. Further calls of `close` do nothing."""

    # What every backend shares ------------------------------------------------

    @property
    def state_width(self) -> int:
        """S, the bytes of one state row."""
        return self.layout.state_width

    @property
    def obs_shape(self) -> tuple[int, ...] | None:
        """Shape of one observation; None for a nested space."""
        return self.observation_space.shape

    @property
    def action_shape(self) -> tuple[int, ...] | None:
        """Shape of one action, `()` if discrete; None for a nested space."""
        return self.action_space.shape

    @property
    def unwrapped(self) -> PlanEnv:
        """The env itself; for code that expects gymnasium's property."""
        return self

    def sample_action(self) -> Any:
        """One action, drawn by the action space's own generator."""
        return self.action_space.sample()

    def set_state(self, state: np.ndarray) -> None:
        """Bring the env (and so every row), or each of B rows, to a saved state.

        Args:
            state: `[S]` uint8 for the env, or `[B, S]` for rows 0 to B - 1.

        Raises:
            StateError: a state is damaged or belongs to another env.
        """
        if np.ndim(state) == 2:
            rows = self.envelope.check(state, "set_state")
            self._keep_rows(rows.copy(), np.zeros(len(rows), bool))
            return
        self._set_env_state(self._checked_state(state, "set_state"))
        self._drop_rows()

    def sync_states(self, state: np.ndarray) -> None:
        """Bring the env and all its rows to one saved `[S]` state."""
        self.set_state(self._checked_state(state, "sync_states"))

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
            rows = self._checked_states(states, "step_batch")
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
        rows = self._checked_states(states, "rollout_batch")
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} ({self.backend})>"

    # Checks and the rows that continue -----------------------------------------

    def _checked_states(self, states: Any, where: str) -> np.ndarray:
        if isinstance(states, list | tuple):
            if any(state is None for state in states):
                index = next(i for i, state in enumerate(states) if state is None)
                raise ValueError(
                    f"{where}: states[{index}] is None; expected a state in every row. "
                    "Pass states=None to continue all rows, or a state for each."
                )
            try:
                states = np.stack([np.asarray(state) for state in states])
            except ValueError as error:
                raise ValueError(
                    f"{where}: states must be rows of equal width {self.state_width}"
                ) from error
        return self.envelope.check(states, where)

    def _checked_state(self, state: Any, where: str) -> np.ndarray:
        if np.ndim(state) != 1:
            raise ValueError(
                f"{where}: state must be ({self.state_width},) uint8 from get_state; "
                f"got shape {np.shape(state)}"
            )
        return self.envelope.check(np.asarray(state)[None], where)[0]

    def _checked_dt(self, dt: Any, num_rows: int, where: str) -> np.ndarray | int:
        held = np.asarray(dt)
        if held.shape not in ((), (num_rows,)) or held.dtype.kind not in "iu":
            raise ValueError(
                f"{where}: dt must be an int or ({num_rows},) int, control steps per row; "
                f"got {held.shape} {held.dtype}"
            )
        if held.size and (held.min() < 1 or held.max() > np.iinfo(np.int32).max):
            raise ValueError(
                f"{where}: dt must be at least 1 in every row; got {held.min()} to {held.max()}"
            )
        return held.astype(np.int32)

    def _continued_rows(self, num_rows: int) -> tuple[np.ndarray, np.ndarray]:
        """States `[B, S]` of rows 0 to B - 1, and which of them to reset first."""
        known = 0 if self._row_states is None else len(self._row_states)
        if num_rows > known:
            try:
                root = self.get_state()
            except ResetNeeded as error:
                raise ResetNeeded(
                    "step_batch: there are no rows to continue yet. Call reset first, or pass "
                    "states."
                ) from error
            fresh = np.broadcast_to(root, (num_rows - known, len(root)))
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
            self._row_states[: len(states)] = states
            self._row_ended[: len(states)] = ended

    def _drop_rows(self) -> None:
        self._row_states = self._row_ended = None

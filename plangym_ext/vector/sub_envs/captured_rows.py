"""CapturedRows: the live envs of one process, with capture, restore and closing."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.core.made_env import close_env, made_env
from plangym_ext.errors import IncompleteState, ResetNeeded, add_note
from plangym_ext.states.envelope import HEADER
from plangym_ext.states.layer_attributes import Binding
from plangym_ext.states.live_state import LiveState
from plangym_ext.states.trials.audit import Audit, shown
from plangym_ext.states.trials.choice import is_audited
from plangym_ext.vector.arguments import space_of
from plangym_ext.vector.memory.row_memory import RowMemory
from plangym_ext.vector.results import Reply
from plangym_ext.vector.sub_envs.checkpoint import ResultChecksum
from plangym_ext.vector.sub_envs.row_states import (
    CapturePace,
    ProvedRow,
    RowState,
    StepsAhead,
    check_distinct,
    proved_rows,
)
from plangym_ext.workers.batch_layout import NO_ROW

Rows = Sequence[int]


class CapturedRows:
    """Some rows of a vector env, in this process, that can be restored from states.

    Args:
        makes: constructor of each row's env; rows that share one have equal envs.
        first: number of the first row, for messages.
        capture: how states are captured: as for `GymEnv`, or "off" for no states.
        check, trust, audit: as for `GymEnv`.
        why_off: why there are no states, if they are off.
        proved: what `description` said of it in the process that this one replaces.

    Attributes:
        envs: of the rows.
    """

    def __init__(
        self,
        makes: Sequence[Callable[[], Any]],
        *,
        first: int = 0,
        capture: str = "auto",
        check: bool | float = True,
        trust: bool = False,
        audit: str = "raise",
        why_off: str = "states are off; leave out capture='off' to have them",
        proved: Sequence[ProvedRow] = (),
    ) -> None:
        self._first = first
        self.envs: list[gym.Env[Any, Any]] = []
        #: Rows that were never reset, and whether there may be one.
        self._fresh, self._any_fresh = [True] * len(makes), True
        self._ahead = StepsAhead(first)
        self._pace = CapturePace()
        self._checksum = ResultChecksum()
        #: The row whose future is kept for an audit; -1 for none.
        self._watched = -1
        self._audit = Audit("", "off")
        self._trust, self._policy = trust, audit
        #: The row that moves; noted nowhere before `use`, as by calls that fail before it.
        self._progress: Any = [NO_ROW]
        #: Undoes what the last call has set, if that is found to have failed elsewhere.
        self._undo: Callable[[], None] | None = None
        try:
            # All of them first: a constructor may hand out what others have left.
            for make in makes:
                self.envs.append(made_env(make))
            check_distinct(self.envs, first)
            #: How each row's state is captured, or why it cannot be.
            self._proved: Sequence[ProvedRow] = [ProvedRow((), why_off)] * len(makes)
            if capture != "off":
                self._proved = proved_rows(
                    self.envs, capture=capture, check=check, trust=trust, earlier=proved
                )
        except BaseException:
            with contextlib.suppress(Exception):  # the first error is the one to tell
                self.close()
            raise

    def description(self) -> dict[str, Any]:
        """Return the spaces of every row, and the first env's attributes."""
        first = self.envs[0]
        return {
            "observation_spaces": [space_of(env, "observation_space") for env in self.envs],
            "action_spaces": [space_of(env, "action_space") for env in self.envs],
            "metadata": dict(first.metadata),
            "render_mode": first.render_mode,
            "name": first.spec.id if first.spec else type(first.unwrapped).__name__,
            "proved": self._proved,
        }

    def use(self, memory: RowMemory, index: int, proved: Sequence[ProvedRow]) -> None:
        """Write results to this memory from now on; called once, before any row is reset.

        Args:
            memory: row 0 of this process is row `first` there.
            index: number of this process.
            proved: how states are captured, as was agreed on; not of an env that is of another
                kind than that.
        """
        pairs = zip(proved, self._proved, strict=True)
        self._capture([given if given.kind == own.kind else own for given, own in pairs])
        hosted = slice(self._first, self._first + len(self.envs))
        self._obs, self._finals = memory.obs, memory.finals
        # Cells of memory take single values faster than arrays do.
        self._shown = memory.obs.leaves(hosted)
        self._arrays: tuple[np.ndarray, ...] = memory.steps.rows(hosted)
        self._cells: Any = tuple(array.data for array in self._arrays)
        self._progress = memory.progress[index].data
        self._progress[0] = NO_ROW

    # States -------------------------------------------------------------------------

    def _capture(self, proved: Sequence[ProvedRow]) -> None:
        """Prepare the envs for the ways in which their states are captured."""
        rows = zip(proved, self.envs, strict=True)
        self._states: list[RowState] = [row.state_of(env, trust=self._trust) for row, env in rows]
        #: Rows whose states are audited, with their ways.
        self._audited: dict[int, Binding] = {}
        for row, found in enumerate(self._states):
            if isinstance(found, LiveState):
                if is_audited(self.envs[row], found.binding):
                    self._audited[row] = found.binding
                self.envs[row] = found.env
        name = self.envs[0].spec.id if self.envs[0].spec else "sub-envs"
        policy = self._policy if self._audited else "off"
        self._audit = Audit(name, policy, [*self._audited.values()])

    def get_states(self, rows: Rows) -> list[np.ndarray]:
        """Return the `[S]` uint8 state of each row; their widths may differ.

        Raises:
            IncompleteState: a row's state cannot be captured.
            ResetNeeded: a row was never reset.
        """
        return [self._state(row).capture() for row in rows]

    def set_states(
        self,
        rows: Rows,
        states: Sequence[np.ndarray],
        observations: Any,
        capture: bool | None = None,
    ) -> Reply:
        """Set rows to states.

        Args:
            rows: which.
            states: `[S]` of each.
            observations: what each row shows now, until it is stepped; None leaves that.
            capture: as for `reset`.

        Raises:
            StateError: a state is damaged or of another env.
        """
        begun, self._undo = time.perf_counter(), None
        self._restore(rows, states)
        if observations is not None:
            for row, obs in zip(rows, observations, strict=True):
                self._obs.put(self._first + row, obs)
        return Reply(states=self._captured(capture, begun, len(rows)))

    def _restore(self, rows: Rows, states: Sequence[np.ndarray]) -> None:
        self._forget_audit()
        for row, state in zip(self._moved(rows), states, strict=True):
            if self._fresh[row]:
                # Codecs restore into an env that has been reset.
                self.envs[row].reset(seed=0)
                self._fresh[row] = False
            self._state(row).restore(state, "set_states")

    def _state(self, row: int) -> LiveState:
        state = self._states[row]
        if isinstance(state, IncompleteState):
            raise IncompleteState(f"row {self._first + row}: {state}")
        if self._fresh[row]:
            raise ResetNeeded(f"row {self._first + row} was never reset. Call reset first.")
        return state

    def _captured(
        self,
        capture: bool | None,
        begun: float | None = None,
        num_rows: int = 0,
        *,
        due: bool = False,
    ) -> list[np.ndarray | None] | None:
        """Return all states if they are wanted."""
        share = num_rows / len(self.envs)
        due |= begun is not None and self._pace.note(time.perf_counter() - begun, share)
        if capture is False or (capture is None and not due):
            return None
        # A row that was stepped before its first reset has no state; a later call will capture.
        if self._ahead.open(self._fresh):
            return [] if self._ahead.too_many else None
        # Restarted with the states, as the parent does with its list of calls.
        self._checksum.restart()
        begun = time.perf_counter()
        try:
            found = [
                None if self._fresh[row] else self._state(row).capture()
                for row in range(len(self.envs))
            ]
        except Exception as error:
            if capture is not None and not isinstance(error, IncompleteState):
                raise  # the states were asked for
            # The step is good without them, also where an env's own `get_state` has failed. What
            # it took counts: it is not tried again in every step.
            self._pace.captured(time.perf_counter() - begun, 0)
            return []
        self._watch(found)
        nbytes = sum(len(state) for state in found if state is not None)
        self._pace.captured(time.perf_counter() - begun, nbytes)
        return found

    def restore_all(self, states: Sequence[np.ndarray | None]) -> None:
        """Set all rows of this process to states; None for rows that were never reset.

        Raises:
            ResetNeeded: such a row was stepped here.
        """
        self._ahead.check_back(states)
        # The previous call succeeded here, and failed in another process.
        if self._undo is not None:
            undo, self._undo = self._undo, None
            undo()
        known = {row: state for row, state in enumerate(states) if state is not None}
        self._restore(list(known), list(known.values()))
        # The sum counts from the states on: a replay begins here, too.
        self._fresh, self._any_fresh = [state is None for state in states], True
        self._checksum.restart()

    def replay(self, calls: Sequence[tuple[str, tuple[Any, ...]]]) -> int:
        """Repeat calls of these methods; return their checksum, as `Reply.checksum`."""
        for name, args in calls:
            getattr(self, name)(*args, capture=False)
        return self._checksum.value

    # Replies ------------------------------------------------------------------------

    def _reply(
        self,
        rows: Rows,
        infos: list[tuple[int, dict[str, Any]]],
        finals: list[tuple[int, Any, dict[str, Any]]],
        obs: list[Any],
        capture: bool | None,
        begun: float | None = None,
    ) -> Reply:
        """Return the reply of a call, with the checksum for a replay."""
        self._checksum.add(*self._results_of(rows))
        own = None if self._obs.is_array else obs
        if own is not None:
            self._checksum.add_values(own)
        states, checksum = self._captured(capture, begun, len(rows)), self._checksum.value
        # A step of other rows may change the memory before this is looked at.
        some = states and begun and self._obs.is_array and len(rows) < len(self.envs)
        kept = tuple(leaf.copy() for leaf in self._shown) if some else None
        # By position: names cost as much as a small env's step.
        return Reply(infos, finals, own, (), True, states, kept, checksum)

    def _results_of(self, rows: Rows) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
        """Return rewards and endings of rows, and the leaves of what they show."""
        if isinstance(rows, range) and len(rows) == len(self.envs):
            return self._arrays, self._shown
        some: Any = slice(rows.start, rows.stop) if isinstance(rows, range) else list(rows)
        return (
            tuple(array[some] for array in self._arrays),
            tuple(leaf[some] for leaf in self._shown),
        )

    def _moved(self, rows: Iterable[int]) -> Iterator[int]:
        """Yield the same rows, each noted as the one that is moved."""
        progress = self._progress
        progress[1] += 1
        for row in rows:
            progress[0] = row
            yield row
        progress[0] = NO_ROW

    # Audits -------------------------------------------------------------------------

    def _note(self, action: Any, obs: Any, *result: Any) -> None:
        """Note what the watched row has shown, for an audit."""
        layout = SpaceLayout(self.envs[self._watched].observation_space, objects=True)
        if self._audit.note(action, shown(layout, obs, *result)):
            row, self._watched = self._watched, -1
            self._audit.start(self.envs[row], self._state(row).codec)

    def _forget_audit(self) -> None:
        self._watched, self._audit.sample = -1, None

    def _watch(self, states: Sequence[np.ndarray | None]) -> None:
        """Keep the state of a row for an audit, if there is time for one."""
        if self._watched >= 0 or not self._audit.is_due():
            return
        row = [*self._audited][self._audit.passed % len(self._audited)]
        if (state := states[row]) is not None:
            self._audit.open(state[HEADER:])
            self._watched = row

    # Life ---------------------------------------------------------------------------

    def settle(self) -> None:
        """Make the last call's attribute changes permanent."""
        self._undo = None

    def between_calls(self) -> None:
        """Note that no row is moving: a call has ended, with or without an error."""
        self._progress[0] = NO_ROW

    def close(self) -> None:
        """Close every env.

        Raises:
            Exception: what one has raised: the first, once all are closed.
        """
        # All are closed, whatever the first one raises: a window or a process may hang on each.
        first: BaseException | None = None
        self._audit.close()
        for row, env in enumerate(self.envs, self._first):
            try:
                close_env(env)
            except (Exception, SystemExit) as error:
                add_note(error, f"while sub-env {row} was closed")
                first = first or error
        if first is not None:
            raise first

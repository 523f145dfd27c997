"""EnvRows: the live envs of one process (reset, step, method calls, states).

Used as it is by the serial backend, and inside a worker by the process backend.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from plangym_ext.arrays.rewards import reward_of
from plangym_ext.arrays.spaces import SpaceLayout, own_copy
from plangym_ext.core.construction.made_env import close_env, made_env
from plangym_ext.errors import IncompleteState, ResetNeeded, add_note
from plangym_ext.states.envelope import HEADER
from plangym_ext.states.live_state import LiveState
from plangym_ext.states.trials.audit import Audit, shown
from plangym_ext.states.trials.subject import FOUR_VALUES, wrong_step
from plangym_ext.vector.arguments import UNWRAPPED
from plangym_ext.vector.memory.row_memory import RowMemory
from plangym_ext.vector.memory.step_out import OutRows
from plangym_ext.vector.own_infos import own_info
from plangym_ext.vector.results import IN_MEMORY, Reply
from plangym_ext.vector.spaces import space_of
from plangym_ext.vector.sub_envs.checksum import ResultChecksum
from plangym_ext.vector.sub_envs.plain_attributes import (
    PlainChanges,
    attribute_or_missing,
    note_if_not_begun,
    nothing_moves,
    set_or_remove,
    wrapper_attribute,
)
from plangym_ext.vector.sub_envs.row_states import (
    CapturePace,
    ProvedRow,
    RowState,
    check_distinct,
    proved_rows,
)
from plangym_ext.vector.sub_envs.steps_ahead import StepsAhead
from plangym_ext.workers.batch_layout import NO_ROW

Rows = Sequence[int]


class EnvRows:
    """Some rows of a vector env, in this process.

    Args:
        makes: constructor of each row's env; rows that share one have equal envs.
        first: number of the first row, for messages.
        state: how states are captured: as for `GymEnv`, or "off" for no states.
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
        state: str = "auto",
        check: bool | float = True,
        trust: bool = False,
        audit: str = "raise",
        why_off: str = "states are off; leave out state='off' to have them",
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
        #: The row that moves; noted nowhere before `use`, as by calls that fail before it.
        self._progress: Any = [NO_ROW]
        #: Undoes what the last call has set, if that is found to have failed elsewhere.
        self._undo: Callable[[], None] | None = None
        try:
            # All of them first: a constructor may hand out what others have left.
            for make in makes:
                self.envs.append(made_env(make))
            check_distinct(self.envs, first)
            #: What was learned of each row's env; none if states are off.
            self._proved: Sequence[ProvedRow] = ()
            #: How each row's state is captured, or why it cannot be.
            self._states: list[RowState] = [IncompleteState(why_off)] * len(makes)
            if state != "off":
                self._proved = proved_rows(
                    self.envs, state=state, check=check, trust=trust, earlier=proved
                )
                pairs = zip(self._proved, self.envs, strict=True)
                self._states = [found.state_of(env, trust=trust) for found, env in pairs]
            watched = False
            for row, found in enumerate(self._states):
                if isinstance(found, LiveState):
                    self.envs[row] = found.env
                    watched |= found.binding.exactness.proved in ("fork", "worker")
            name = self.envs[0].spec.id if self.envs[0].spec else "sub-envs"
            self._audit = Audit(name, audit if watched else "off")
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
            "captures": [isinstance(state, LiveState) for state in self._states],
            "notes": [s.binding.note if isinstance(s, LiveState) else str(s) for s in self._states],
            "proved": self._proved,
        }

    def use(self, memory: RowMemory, index: int) -> None:
        """Write there from now on.

        Args:
            memory: row 0 of this process is row `first` there.
            index: number of this process.
        """
        hosted = slice(self._first, self._first + len(self.envs))
        self._obs, self._finals = memory.obs, memory.finals
        # Cells of memory take single values faster than arrays do.
        self._shown = memory.obs.leaves(hosted)
        self._arrays: tuple[np.ndarray, ...] = memory.steps.rows(hosted)
        self._cells: Any = tuple(array.data for array in self._arrays)
        self._progress = memory.progress[index].data
        self._progress[0] = NO_ROW

    # Playing ------------------------------------------------------------------------

    def reset(
        self,
        rows: Rows,
        seeds: Sequence[int | None],
        options: dict[str, Any] | None,
        capture: bool | None = True,
    ) -> Reply:
        """Reset rows.

        Args:
            rows: which, counted from this process's first.
            seeds: of each.
            options: for each env's `reset`.
            capture: whether to return the states too; None for if it is time.
        """
        self._undo = None
        infos: list[tuple[int, dict[str, Any]]] = []
        shown: list[Any] = []
        rewards, terminations, truncations = self._cells
        put, first = self._obs.put, self._first
        is_array, obs_rows = self._obs.is_array, self._obs.rows
        for k, row in enumerate(self._moved(rows)):
            seed = seeds[k]
            try:
                obs, info = self.envs[row].reset(seed=seed, options=options)
                self._fresh[row] = False
                if row == self._watched:
                    self._forget_audit()
                put(first + row, obs)
                if info:
                    infos.append((k, own_info(info)))
            except BaseException as error:
                add_note(error, f"while row {first + row} was reset, seed {seed}")
                raise
            rewards[row], terminations[row], truncations[row] = 0.0, False, False
            if not is_array:
                shown.extend(obs_rows((first + row,)))
        return self._reply(rows, infos, [], shown, capture)

    def step(
        self,
        rows: Rows,
        actions: Sequence[Any],
        resets: Sequence[bool],
        same_step: bool,
        capture: bool | None = None,
        out: OutRows | None = None,
    ) -> Reply:
        """Step rows, or reset those that are to be.

        Args:
            rows: which.
            actions: of each.
            resets: whether a row is reset instead, and its action left alone.
            same_step: reset a row that ends at once, and return what it ended with too.
            capture: as for `reset`.
            out: what results are written to, besides this process's memory.
        """
        begun, self._undo = time.perf_counter(), None
        actions = _own_actions(actions)
        infos: list[tuple[int, dict[str, Any]]] = []
        finals: list[tuple[int, Any, dict[str, Any]]] = []
        shown: list[Any] = []
        rewards, terminations, truncations = self._cells
        # Local names: an attribute would be looked up for every row.
        put, first, envs, progress = self._obs.put, self._first, self.envs, self._progress
        is_array, obs_rows = self._obs.is_array, self._obs.rows
        if self._any_fresh:
            self._note_ahead(rows, resets)
        # Before the first row: the parent sees that this call has begun, and not the one before it.
        progress[1] += 1
        for k, (row, action, reset) in enumerate(zip(rows, actions, resets, strict=True)):
            env = envs[row]
            # Told before it is moved: should the env kill the process, this row is to blame.
            progress[0] = row
            try:
                if reset:
                    obs, info = env.reset()
                    self._fresh[row] = False
                    if row == self._watched:
                        self._note(None, obs)
                    rewards[row], terminations[row], truncations[row] = 0.0, False, False
                else:
                    obs, reward, ended, cut, info = env.step(action)
                    try:
                        rewards[row] = reward
                    except TypeError:
                        rewards[row] = reward_of(reward)
                    terminations[row], truncations[row] = ended, cut
                    if row == self._watched:
                        self._note(action, obs, reward, ended, cut)
                    # What the row ended with has to leave the env before the reset overwrites it.
                    if same_step and (ended or cut):
                        # Copied: the env may use its memory again.
                        final = self._put_final(k, row, obs, out)
                        finals.append((k, final, copy.deepcopy(own_info(info) if info else {})))
                        obs, info = env.reset()
                        self._fresh[row] = False
                        if row == self._watched:
                            self._note(None, obs)
                put(first + row, obs)
                if info:
                    infos.append((k, own_info(info)))
            except BaseException as error:
                self._explain(error, rows[k:], action)
                raise
            # Else it lies in memory already. As it was put there: the next row may write to `obs`.
            if not is_array:
                shown.extend(obs_rows((first + row,)))
        progress[0] = NO_ROW
        if out is not None:
            infos, finals = out.write(*self._results_of(rows), infos, finals)
        return self._reply(rows, infos, finals, shown, capture, begun)

    def _put_final(self, k: int, row: int, obs: Any, out: OutRows | None) -> Any:
        """Keep what row k of a call ended with in memory; return a copy if it does not fit."""
        if out is not None:
            out.put_final(k, obs)
        if not self._finals.holds(obs):
            return copy.deepcopy(obs)
        self._finals.put(self._first + row, obs)
        return IN_MEMORY

    def _results_of(self, rows: Rows) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
        """Return rewards and endings of rows, and the leaves of what they show."""
        if isinstance(rows, range) and len(rows) == len(self.envs):
            return self._arrays, self._shown
        some: Any = slice(rows.start, rows.stop) if isinstance(rows, range) else list(rows)
        return (
            tuple(array[some] for array in self._arrays),
            tuple(leaf[some] for leaf in self._shown),
        )

    def _note_ahead(self, rows: Rows, resets: Sequence[bool]) -> None:
        """Note rows that are about to be stepped before their first reset."""
        self._any_fresh = any(self._fresh)
        self._ahead.note(rows, resets, self._fresh)

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
        row = self._audit.passed % len(states)
        state, found = states[row], self._states[row]
        if state is not None and isinstance(found, LiveState):
            self._audit.open(state[HEADER:])
            self._watched = row

    def _explain(self, error: BaseException, rows: Rows, action: Any) -> None:
        """Note what has failed in the step of the first of `rows`; the others were not moved."""
        env = self.envs[rows[0]]
        self._ahead.note_error(error, env, rows)
        if error.args == (FOUR_VALUES,):
            add_note(error, wrong_step(env, 4))
        add_note(error, f"in row {self._first + rows[0]}, action {action}")

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

    def _moved(self, rows: Iterable[int]) -> Iterator[int]:
        """Yield the same rows, each noted as the one that is moved."""
        progress = self._progress
        progress[1] += 1
        for row in rows:
            progress[0] = row
            yield row
        progress[0] = NO_ROW

    # Everything else ----------------------------------------------------------------

    def call(
        self,
        rows: Rows,
        name: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        capture: bool | None = None,
    ) -> Reply:
        """Return attributes of rows' envs, or what their methods return.

        `name` may be a function of an env too. `capture` is as for `reset`.
        """
        begun, self._undo = time.perf_counter(), None
        self._forget_audit()  # whatever the call does is no action
        # Looked up of all rows before a method of one is called: a name that one of them does
        # not know leaves all of them where they are.
        with nothing_moves():
            found = [wrapper_attribute(self.envs[row], name) for row in self._moved(rows)]
        changes = PlainChanges(self.envs)
        undo = functools.partial(self._set_back, changes)
        try:
            for at, row in enumerate(self._moved(rows)):
                if callable(found[at]):
                    found[at] = self._called(row, found[at], args, kwargs, changes)
        except BaseException as error:
            undo()
            if len(changes.rows) == 1:
                note_if_not_begun(error)
            raise
        self._undo, moved = undo, bool(changes.rows)
        # At once where something was set: states may not hold it, so that it has to be set again
        # before what comes after this call is played again, and not before what came before.
        due = bool(changes.made)
        states = self._captured(capture, begun, len(rows), due=due) if moved else None
        made = {(row, UNWRAPPED + held): value for (row, held), value in changes.made.items()}
        return Reply(values=found, moved=moved, states=states, attributes=made or None)

    def _set_back(self, changes: PlainChanges) -> None:
        """Undo what methods have set: states, by which rows are brought back, may not hold it."""
        changes.undo()
        for row in changes.rows:
            self._identify(row)

    def _called(
        self,
        row: int,
        method: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        changes: PlainChanges,
    ) -> Any:
        """Call a method of a row's env, and note what it has set."""
        changes.watch(row)
        value = method(*args, **kwargs)
        if changes.note(row):
            # States tell what the env that they are of is made with.
            self._identify(row)
        return value

    def set_attr(
        self, rows: Rows, name: str, values: Sequence[Any], capture: bool | None = True
    ) -> Reply:
        """Set an attribute of rows' envs, of all or of none. `capture` is as for `reset`."""
        self._forget_audit()
        owners = [self.envs[row] for row in rows]
        if name.startswith(UNWRAPPED):
            owners, name = [env.unwrapped for env in owners], name.removeprefix(UNWRAPPED)
        # Looked up before anything is set: the attribute is set for all rows or for none.
        with nothing_moves():
            before = [attribute_or_missing(env, name) for env in owners]

        def undo() -> None:
            for env, value in zip(owners, before, strict=True):
                set_or_remove(env, name, value)
            # Of all: which of them the new value had reached is not known.
            for row in rows:
                self._identify(row)

        self._undo = None
        try:
            for row, env, value in zip(rows, owners, values, strict=True):
                env.set_wrapper_attr(name, value)
                self._identify(row)
        except BaseException as error:
            undo()
            note_if_not_begun(error)
            raise
        self._undo = undo
        return Reply(states=self._captured(capture))

    def _identify(self, row: int) -> None:
        state = self._states[row]
        if not isinstance(state, IncompleteState):
            state.identify()

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

    def settle(self) -> None:
        """Make the last call's attribute changes permanent."""
        self._undo = None

    # Being brought back -------------------------------------------------------------

    def restore_all(self, states: Sequence[np.ndarray | None]) -> None:
        """Set all rows of this process to states; None for rows that were never reset.

        Raises:
            ResetNeeded: such a row was stepped here.
        """
        self._ahead.check_back(states)
        # The call before was done here, and has failed elsewhere.
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
        """Return all states if they are wanted.

        Args:
            capture: as for `reset`.
            begun: when the call began that is over now.
            num_rows: how many rows it was for.
            due: whether they are wanted, whatever they cost.
        """
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

    def between_calls(self) -> None:
        """Note that no row is moved: a call has ended, however it has."""
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


def _own_actions(actions: Any) -> Any:
    """Return the same, to be written into: they may be played again as they came."""
    if not isinstance(actions, np.ndarray):
        return [own_copy(action) for action in actions]
    # Rows of a vector are numbers, which do not change.
    return actions if actions.ndim == 1 else actions.copy()

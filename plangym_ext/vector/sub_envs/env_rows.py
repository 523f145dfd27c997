"""EnvRows: reset, step and method calls of the live envs of one process.

Used as it is by the serial backend, and inside a worker by the process backend.
"""

from __future__ import annotations

import copy
import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from plangym_ext.arrays.nested import reward_of
from plangym_ext.arrays.spaces import own_copy
from plangym_ext.errors import IncompleteState, InvalidObservation, add_note
from plangym_ext.states.trials.sampling import checked_reset
from plangym_ext.states.trials.subject import FOUR_VALUES, wrong_step
from plangym_ext.vector.arguments import UNWRAPPED
from plangym_ext.vector.memory.step_out import OutRows
from plangym_ext.vector.results import IN_MEMORY, Reply
from plangym_ext.vector.sub_envs.captured_rows import CapturedRows, Rows
from plangym_ext.vector.sub_envs.plain_attributes import (
    PlainChanges,
    attribute_or_missing,
    note_if_not_begun,
    nothing_moves,
    set_or_remove,
    wrapper_attribute,
)
from plangym_ext.workers.batch_layout import NO_ROW


class EnvRows(CapturedRows):
    """Resets and steps the rows of one process; arguments are those of `CapturedRows`."""

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
                env = self.envs[row]
                obs, info = checked_reset(env, env.reset(seed=seed, options=options))
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
        """Step rows, and reset those whose episodes have ended.

        Args:
            rows: which.
            actions: of each.
            resets: whether a row is reset instead, and its action left alone.
            same_step: reset a row that ends in the same step, and return its last observation and
                info too.
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
            # Written before the row moves: if the env kills the process, this row is to blame.
            progress[0] = row
            try:
                if reset:
                    obs, info = checked_reset(env, env.reset())
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
                        obs, info = checked_reset(env, env.reset())
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

    def _note_ahead(self, rows: Rows, resets: Sequence[bool]) -> None:
        """Note rows that are about to be stepped before their first reset."""
        self._any_fresh = any(self._fresh)
        self._ahead.note(rows, resets, self._fresh)

    def _explain(self, error: BaseException, rows: Rows, action: Any) -> None:
        """Note what has failed in the step of the first of `rows`; the others were not moved."""
        env = self.envs[rows[0]]
        self._ahead.note_error(error, env, rows)
        if error.args == (FOUR_VALUES,):
            add_note(error, wrong_step(env, 4))
        add_note(error, f"in row {self._first + rows[0]}, action {action}")

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


def _own_actions(actions: Any) -> Any:
    """Return the same, to be written into: they may be played again as they came."""
    if not isinstance(actions, np.ndarray):
        return [own_copy(action) for action in actions]
    # Rows of a vector are numbers, which do not change.
    return actions if actions.ndim == 1 else actions.copy()


# Copies of an env's infos that later steps of the env do not change -----------


def own_info(info: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of an info that later writes of any env do not change.

    Envs may return one dict or array that they refill in each step, and sub-envs may share it.
    Values that cannot be written to cost nothing; objects of other classes are the same ones.

    Raises:
        InvalidObservation: it is no dict.
    """
    if not isinstance(info, dict):
        raise InvalidObservation(f"info: expected a dict; got {info!r}. Correct the env.")
    return {key: _own(value) for key, value in info.items()}


def _own(value: Any) -> Any:
    # By exact type: a class of the env's own may mean something else by its copy.
    kind = type(value)
    if kind is np.ndarray:
        return value.copy()
    if kind is dict:
        return own_info(value)
    if kind is list or kind is tuple:
        return kind(map(_own, value))
    return value

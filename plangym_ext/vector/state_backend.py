"""Rows that are states, stepped by a native backend without a Python call for each."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import concatenate, create_empty_array

from plangym_ext.core.continued_rows import equally_wide
from plangym_ext.core.infos import InfoBatch, InfoColumn
from plangym_ext.core.live_stepper import LiveStepper
from plangym_ext.core.rows import RowResults
from plangym_ext.errors import InvalidObservation, ResetNeeded
from plangym_ext.vector.backend import (
    PlayedLater,
    ResultsLater,
    RowsDescription,
    VectorBackend,
)
from plangym_ext.vector.errors import VectorResetNeeded
from plangym_ext.vector.infos import Columns, GroupedInfos, InfoGroup
from plangym_ext.vector.live_rows import UNWRAPPED
from plangym_ext.vector.obs_buffer import ObsBuffer
from plangym_ext.vector.played import Played
from plangym_ext.vector.row_values import RowValues

_COUNTS = ("n_step", "dt")


class StateBackend(VectorBackend):
    """Moves n states with one env; see `VectorBackend`.

    A step, with the resets of rows that ended, is one native call for all rows
    (`_step_all`). Rows that the native code cannot judge, resets with seeds or options, and
    calls run on the env proper one by one: its state is set, and captured afterwards.

    Args:
        env: the env; its env proper is `plan_env`. It belongs to this.
        num_envs: n.
    """

    def __init__(self, env: LiveStepper, num_envs: int) -> None:
        self._env, self._num_envs = env, num_envs
        self._gym_env = env.gym_env
        self._columns: tuple[InfoColumn, ...] = env.plan_env.info_writer.columns
        #: That of the marks of invalid values, if they are wanted.
        self._marks = env.plan_env.layout.info[len(self._columns) :]
        #: As `step_live` returns them; replaced when a whole call has succeeded.
        self._states = np.zeros((num_envs, env.state_width), np.uint8)
        #: Rows that were never reset, and whether there is one.
        self._fresh, self._any_fresh = np.ones(num_envs, bool), True
        self._numbers = np.arange(num_envs)

    @property
    def backend_note(self) -> str:
        """See `VectorBackend`."""
        return self._env.backend_note

    @property
    def description(self) -> RowsDescription:
        """See `VectorBackend`."""
        env = self._env
        return RowsDescription(
            env.name,
            [env.observation_space] * self._num_envs,
            [env.action_space] * self._num_envs,
            dict(env.metadata),
            self._gym_env.render_mode,
        )

    @property
    def backend(self) -> str:
        """See `VectorBackend`."""
        return self._env.backend

    @property
    def lost(self) -> bool:
        """False: states are replaced when all has succeeded."""
        return False

    def use(self, space: spaces.Space[Any]) -> None:
        """See `VectorBackend`."""
        self.board = ObsBuffer(space, self._num_envs)
        # A space of the caller's own may ask for another dtype than the env's.
        self._values = RowValues(self._env.plan_env.values.policy, self.board, self._env.name)
        self._is_cast = space.dtype != self._env.observation_space.dtype

    # All rows at once ---------------------------------------------------------------

    def begin_step(
        self,
        rows: Sequence[int],
        actions: Sequence[Any] | np.ndarray,
        resets: np.ndarray,
        same_step: bool,
    ) -> PlayedLater:
        """See `VectorBackend`."""
        if self._any_fresh and self._fresh[list(rows)].any():
            raise VectorResetNeeded(
                f"step: sub-envs {np.flatnonzero(self._fresh).tolist()} were never reset. Call "
                "reset first."
            )
        found = self._step_all(rows, self._array_of(actions), resets, same_step)
        if found is None:
            found = self._step_each(rows, actions, resets, same_step)
        return functools.partial(_give, found)

    def _step_all(
        self, rows: Sequence[int], actions: np.ndarray, resets: np.ndarray, same_step: bool
    ) -> Played | None:
        """Step or reset rows by native calls; None, and nothing moved, if they cannot."""
        whole = isinstance(rows, range)
        states = self._states if whole else self._states[rows]
        found = self._env.step_live(actions, states, resets, whole=whole)
        if found is None:
            return None
        groups = self._groups(found.infos, resets)
        if same_step:
            over = found.terminated | found.truncated
            if over.any():
                anew = self._reset_all(found, over, actions)
                if anew is None:
                    return None
                groups = anew
        (obs,) = found.obs
        if whole:
            self._states = found.states
            self.board.put_batch(slice(None), obs)
        else:
            self._states, states = equally_wide(self._states, found.states)
            self._states[rows] = states
            self.board.put_batch(rows, obs)
        rewards = found.rewards.reshape(-1)
        infos = GroupedInfos(groups)
        batch = None if self._is_cast else obs
        return Played(
            rewards, found.terminated, found.truncated, infos, [], None, None, batch=batch
        )

    def _groups(self, infos: InfoBatch, resets: np.ndarray) -> list[InfoGroup]:
        """The infos of rows that were stepped, or reset instead."""
        marks, on_reset = self._marks, self._env.reset_columns or ()
        if not self._columns and not on_reset and not marks:
            return []
        if not resets.any():
            everyone = self._numbers[: len(resets)]
            return [InfoGroup(everyone, [(c, infos[c.key]) for c in (*self._columns, *marks)])]
        stepped, reset = np.flatnonzero(~resets), np.flatnonzero(resets)
        return [
            InfoGroup(stepped, _columns((*self._columns, *marks), infos, stepped)),
            InfoGroup(reset, _columns((*on_reset, *marks), infos, reset)),
        ]

    def _reset_all(
        self, found: RowResults, over: np.ndarray, actions: np.ndarray
    ) -> list[InfoGroup] | None:
        """Reset rows that ended in the step that gave `found`, which is written to.

        Args:
            found: results of the step.
            over: `[k]` bool, rows that ended.
            actions: of the step.

        Returns:
            Infos of all rows; None if a row cannot be reset natively.
        """
        ended, others = np.flatnonzero(over), np.flatnonzero(~over)
        every = np.ones(len(ended), bool)
        anew = self._env.step_live(actions[ended], found.states[ended], every, whole=False)
        if anew is None:
            return None
        final_obs = found.obs[0][ended]
        found.obs[0][ended] = anew.obs[0]
        found.states[ended] = anew.states
        return [
            InfoGroup(others, _columns((*self._columns, *self._marks), found.infos, others)),
            InfoGroup(
                ended,
                [
                    *_columns(self._env.reset_columns or (), anew.infos, slice(None)),
                    # What an episode ends with is looked at, too.
                    *_columns(self._marks, found.infos, ended),
                ],
                final_obs,
                _columns(self._columns, found.infos, ended),
            ),
        ]

    def _array_of(self, actions: Sequence[Any] | np.ndarray) -> np.ndarray:
        if isinstance(actions, np.ndarray):
            return actions
        space = self._env.action_space
        out: Any = create_empty_array(space, n=len(actions), fn=np.zeros)
        found: Any = concatenate(space, actions, out)
        return np.asarray(found)

    # One row after another ----------------------------------------------------------

    def begin_reset(
        self, rows: Sequence[int], seeds: Sequence[int | None], options: dict[str, Any] | None
    ) -> PlayedLater:
        """See `VectorBackend`."""
        if not options and not self._fresh[rows].any() and all(seed is None for seed in seeds):
            leaf = self._env.layout.action.leaves[0]
            ignored = np.zeros((len(rows), *leaf.shape), leaf.dtype)
            played = self._step_all(rows, ignored, np.ones(len(rows), bool), same_step=False)
            if played is not None:
                return functools.partial(_give, played)
        begun = [self._reset(row, seed, options) for row, seed in zip(rows, seeds, strict=True)]
        states, shown, infos = zip(*begun, strict=True)
        found = self._shown(rows, shown, _played(len(rows), infos, []))
        self._keep(rows, states, None)
        return functools.partial(_give, found)

    def _reset(
        self, row: int, seed: int | None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, Any, dict[str, Any]]:
        if not self._fresh[row]:
            self._visit(row)
        elif seed is None:
            # Rows begin as copies of one env: each needs a seed of its own.
            seed = int(np.random.SeedSequence().generate_state(1)[0] >> 1)
        state, obs, info = self._env.reset(seed=seed, options=options)
        return state, copy.deepcopy(obs), info

    def _step_each(
        self,
        rows: Sequence[int],
        actions: Sequence[Any] | np.ndarray,
        resets: np.ndarray,
        same_step: bool,
    ) -> Played:
        """What `_step_all` does, by the env proper."""
        infos: list[dict[str, Any]] = []
        found = _played(len(rows), infos, [])
        kept: list[tuple[np.ndarray, Any]] = []
        for k, row in enumerate(rows):
            if resets[k]:
                state, obs, info = self._reset(row, None)
            else:
                self._visit(row)
                stepped: Any = self._env.step(actions[k], return_state=True)
                state, obs, reward, ended, cut, info = stepped
                obs = copy.deepcopy(obs)  # the env may use its memory again
                info = {key: value for key, value in info.items() if key not in _COUNTS}
                found.rewards[k], found.terminations[k], found.truncations[k] = reward, ended, cut
                if same_step and (ended or cut):
                    found.finals.append((k, obs, info))
                    self._env.set_state(state)
                    state, obs, info = self._env.reset()
            kept.append((state, obs))
            infos.append(info)
        states, shown = zip(*kept, strict=True)
        found = self._shown(rows, shown, found._replace(infos=_noted(infos)))
        self._keep(rows, states, None)
        return found

    def _shown(self, rows: Sequence[int], shown: Sequence[Any], played: Played) -> Played:
        """Have rows show observations; what came of the call, with marks if they are wanted.

        Raises:
            InvalidObservation: a value is refused; rows show what they showed before.
        """
        before = self.board.rows(rows)
        for row, obs in zip(rows, shown, strict=True):
            self.board.put(row, obs)
        try:
            return self._values.checked(played, rows)
        except InvalidObservation:
            for row, obs in zip(rows, before, strict=True):
                self.board.put(row, obs)
            raise

    def _keep(self, rows: Sequence[int], states: Sequence[np.ndarray], shown: Any) -> None:
        for row, state in zip(rows, states, strict=True):
            if len(state) > self._states.shape[1]:
                self._states, _ = equally_wide(self._states, state[None])
            self._states[row, : len(state)], self._states[row, len(state) :] = state, 0
            self._fresh[row] = False
        self._any_fresh = bool(self._fresh.any())
        if shown is not None:
            for row, obs in zip(rows, shown, strict=True):
                self.board.put(row, obs)

    # Everything else ----------------------------------------------------------------

    def begin_call(
        self, rows: Sequence[int], name: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> ResultsLater:
        """See `VectorBackend`."""
        found = []
        for row in rows:
            self._visit(row)
            env = self._gym_env
            value = functools.partial(name, env) if callable(name) else env.get_wrapper_attr(name)
            found.append(value(*args, **kwargs) if callable(value) else value)
            if callable(value) and not self._fresh[row]:
                self._keep([row], [self._env.get_state()], None)
        return functools.partial(_give, found)

    def _visit(self, row: int) -> None:
        """Bring the env proper to where a row is, unless that was never reset."""
        if not self._fresh[row]:
            self._env.set_state(self._sealed([row])[0])

    def _sealed(self, rows: Sequence[int]) -> np.ndarray:
        return self._env.sealed(self._states[rows])

    def set_attr(self, rows: Sequence[int], name: str, values: Sequence[Any]) -> None:
        """Set what is part of a state.

        Raises:
            ValueError: it is not, so rows cannot differ in it.
        """
        name = name.removeprefix(UNWRAPPED)
        for row, value in zip(rows, values, strict=True):
            if self._fresh[row]:
                raise ResetNeeded(f"set_attr: row {row} was never reset. Call reset first.")
            self._visit(row)
            before = self._gym_env.get_wrapper_attr(name)
            self._gym_env.set_wrapper_attr(name, value)
            state = self._env.get_state()
            if np.array_equal(state, self._sealed([row])[0]) and before is not value:
                self._gym_env.set_wrapper_attr(name, before)
                raise ValueError(
                    f"set_attr: {name!r} is not part of a state, and the {self._env.backend} "
                    "backend keeps nothing else for each row. Use backend='serial' or 'process'."
                )
            self._keep([row], [state], None)

    def get_states(self, rows: Sequence[int]) -> list[np.ndarray]:
        """See `VectorBackend`."""
        for row in rows:
            if self._fresh[row]:
                raise ResetNeeded(f"row {row} was never reset. Call reset first.")
        return list(self._sealed(rows))

    def set_states(
        self, rows: Sequence[int], states: Sequence[np.ndarray], observations: Any
    ) -> None:
        """See `VectorBackend`."""
        if len(rows):
            self._keep(rows, list(self._env.checked_states(states, "set_states")), observations)

    def close(self) -> None:
        """See `VectorBackend`."""
        self._env.close()


def _give(found: Any, timeout: float | None) -> Any:  # noqa: ARG001 - it is done
    return found


def _columns(columns: Sequence[InfoColumn], infos: InfoBatch, rows: np.ndarray | slice) -> Columns:
    return [(column, infos[column.key][rows]) for column in columns]


def _noted(infos: Sequence[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    return [(k, info) for k, info in enumerate(infos) if info]


def _played(
    num_rows: int, infos: Sequence[dict[str, Any]], finals: list[tuple[int, Any, dict[str, Any]]]
) -> Played:
    """What comes of k rows that ended nothing and were paid nothing."""
    quiet = np.zeros(num_rows), np.zeros(num_rows, bool), np.zeros(num_rows, bool)
    return Played(*quiet, _noted(infos), finals, None, None)

"""Rows that are states, stepped by a `PlanEnv`: for backends that step states natively."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import concatenate, create_empty_array

from plangym_ext.core.continued_rows import equally_wide
from plangym_ext.core.infos import InfoBatch
from plangym_ext.core.plan_env import PlanEnv
from plangym_ext.errors import ResetNeeded
from plangym_ext.vectorization.live_rows import UNWRAPPED, Played
from plangym_ext.vectorization.obs_board import ObsBoard
from plangym_ext.vectorization.row_engine import (
    PlayedLater,
    ResultsLater,
    RowEngine,
    RowsDescription,
)

_COUNTS = ("n_step", "dt")


class PlanEngine(RowEngine):
    """Moves n states with one `PlanEnv`; see `RowEngine`.

    Steps are batches. Resets and calls run on the env proper, row by row: its state is set,
    and captured afterwards.

    Args:
        env: whose env proper is a `GymEnv`, itself or as `plan_env`. It belongs to this.
        num_envs: n.
    """

    def __init__(self, env: PlanEnv, num_envs: int) -> None:
        self._env, self._num_envs = env, num_envs
        proper: Any = getattr(env, "plan_env", env)
        self._gym_env = proper.gym_env
        self._states = np.zeros((num_envs, env.state_width), np.uint8)
        self._fresh = np.ones(num_envs, bool)
        # Texts and objects have no column, and not every backend carries them.
        self._infos = "numeric" if proper.info_writer.holds_all else "all"

    @property
    def note(self) -> str:
        """See `RowEngine`."""
        return self._env.backend_note

    @property
    def description(self) -> RowsDescription:
        """See `RowEngine`."""
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
        """See `RowEngine`."""
        return self._env.backend

    @property
    def lost(self) -> bool:
        """False: states are replaced when all has succeeded."""
        return False

    def use(self, space: spaces.Space[Any]) -> None:
        """See `RowEngine`."""
        self.board = ObsBoard(space, self._num_envs)

    # Playing ------------------------------------------------------------------------

    def begin_reset(
        self, rows: Sequence[int], seeds: Sequence[int | None], options: dict[str, Any] | None
    ) -> PlayedLater:
        """See `RowEngine`."""
        found = [self._reset(row, seed, options) for row, seed in zip(rows, seeds, strict=True)]
        states, shown, infos = zip(*found, strict=True)
        self._keep(rows, states, shown)
        num = len(rows)
        quiet = np.zeros(num), np.zeros(num, bool), np.zeros(num, bool)
        noted = [(k, info) for k, info in enumerate(infos) if info]
        return functools.partial(_give, Played(*quiet, noted, [], None, None))

    def _reset(
        self, row: int, seed: int | None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, Any, dict[str, Any]]:
        if not self._fresh[row]:
            self._env.set_state(self._states[row])
        elif seed is None:
            # Rows begin as copies of one env: each needs a seed of its own.
            seed = int(np.random.SeedSequence().generate_state(1)[0] >> 1)
        state, obs, info = self._env.reset(seed=seed, options=options)
        return state, obs, info

    def begin_step(
        self,
        rows: Sequence[int],
        actions: Sequence[Any] | np.ndarray,
        resets: Sequence[bool],
        same_step: bool,
    ) -> PlayedLater:
        """See `RowEngine`."""
        num = len(rows)
        over = np.array(resets, bool)
        stepped = np.flatnonzero(~over)
        numbers = np.array(rows)
        rewards, terminations, truncations = np.zeros(num), np.zeros(num, bool), np.zeros(num, bool)
        infos: dict[int, dict[str, Any]] = {}
        finals: list[tuple[int, Any, dict[str, Any]]] = []
        anew: dict[int, tuple[np.ndarray, Any]] = {}
        for k in np.flatnonzero(over).tolist():
            state, obs, infos[k] = self._reset(rows[k], None)
            anew[k] = state, obs
        if len(stepped):
            batch: Any = self._env.step_batch(
                self._batched(actions, stepped),
                self._states[numbers[stepped]],
                infos=self._infos,
            )
            rewards[stepped], terminations[stepped] = batch.rewards, batch.terminateds
            truncations[stepped] = batch.truncateds
            self._put(numbers[stepped], batch.states, batch.obs)
            if len(stepped) == num and not (same_step and (terminations | truncations).any()):
                columns = ColumnInfos(batch.infos, stepped)
                found = Played(rewards, terminations, truncations, columns, finals, None, None)
                return functools.partial(_give, found)
            infos |= _by_row(batch.infos, stepped)
            if same_step:
                for k in np.flatnonzero(terminations | truncations).tolist():
                    row = rows[k]
                    (shown,) = self.board.rows([row])
                    finals.append((k, shown, infos.get(k, {})))
                    state, obs, infos[k] = self._reset(row, None)
                    anew[k] = state, obs
        for k, (state, obs) in anew.items():
            self._keep([rows[k]], [state], [obs])
        noted = [(k, infos[k]) for k in sorted(infos) if infos[k]]
        found = Played(rewards, terminations, truncations, noted, finals, None, None)
        return functools.partial(_give, found)

    def _batched(self, actions: Sequence[Any] | np.ndarray, places: np.ndarray) -> Any:
        if isinstance(actions, np.ndarray):
            return actions[places]
        space = self._env.action_space
        chosen = [actions[k] for k in places]
        out: Any = create_empty_array(space, n=len(chosen), fn=np.zeros)
        return concatenate(space, chosen, out)

    def _put(self, rows: np.ndarray, states: np.ndarray, obs: Any) -> None:
        self._states, states = equally_wide(self._states, states)
        self._states[rows] = states
        self.board.put_batch(rows, obs)

    def _keep(self, rows: Sequence[int], states: Sequence[np.ndarray], shown: Any) -> None:
        for row, state in zip(rows, states, strict=True):
            if len(state) > self._states.shape[1]:
                self._states, _ = equally_wide(self._states, state[None])
            self._states[row, : len(state)], self._states[row, len(state) :] = state, 0
            self._fresh[row] = False
        if shown is not None:
            for row, obs in zip(rows, shown, strict=True):
                self.board.put(row, obs)

    # Everything else ----------------------------------------------------------------

    def begin_call(
        self, rows: Sequence[int], name: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> ResultsLater:
        """See `RowEngine`."""
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
        if not self._fresh[row]:
            self._env.set_state(self._states[row])

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
            if np.array_equal(state, self._states[row, : len(state)]) and before is not value:
                self._gym_env.set_wrapper_attr(name, before)
                raise ValueError(
                    f"set_attr: {name!r} is not part of a state, and the {self._env.backend} "
                    "backend keeps nothing else for each row. Use backend='serial' or 'process'."
                )
            self._keep([row], [state], None)

    def get_states(self, rows: Sequence[int]) -> list[np.ndarray]:
        """See `RowEngine`."""
        for row in rows:
            if self._fresh[row]:
                raise ResetNeeded(f"row {row} was never reset. Call reset first.")
        return [self._states[row].copy() for row in rows]

    def set_states(
        self, rows: Sequence[int], states: Sequence[np.ndarray], observations: Any
    ) -> None:
        """See `RowEngine`."""
        if len(rows):
            self._keep(rows, list(self._env.checked_states(states, "set_states")), observations)

    def close(self) -> None:
        """See `RowEngine`."""
        self._env.close()


def _give(found: Any, timeout: float | None) -> Any:  # noqa: ARG001 - it is done
    return found


class ColumnInfos:
    """The infos of all rows of a step, which may be wanted as columns or one by one.

    Args:
        infos: of the batch.
        places: of its rows in the step.

    Attributes:
        columns: `{key: [k, ...] array}`, fresh, if these are all that the env said; else None.
    """

    def __init__(self, infos: InfoBatch, places: np.ndarray) -> None:
        self._infos, self._places = infos, places
        keys = [key for key in infos.keys() if key not in _COUNTS]  # noqa: SIM118 - no mapping
        self.columns: dict[str, np.ndarray] | None = None
        if not infos.has_own and "final_obs" not in keys:
            self.columns = {key: infos[key].copy() for key in keys}

    def __iter__(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Row and info of each that has one."""
        return ((k, info) for k, info in _by_row(self._infos, self._places).items() if info)


def _by_row(infos: InfoBatch, places: np.ndarray) -> dict[int, dict[str, Any]]:
    """The env's own fields of each row that has any."""
    if set(infos.keys()) == set(_COUNTS) and not infos.has_own:
        return {}
    found = {}
    for place, info in zip(places.tolist(), infos, strict=True):
        found[place] = {key: value for key, value in info.items() if key not in _COUNTS}
    return found

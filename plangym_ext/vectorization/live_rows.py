"""The rows of a vector env that live in one process: each is an env of its own, played in place.

Used as it is by the serial backend, and inside a worker by the process backend.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from plangym_ext.core.gym_env import made_env
from plangym_ext.core.late_state import LateState
from plangym_ext.errors import IncompleteState, ResetNeeded
from plangym_ext.vectorization.obs_board import ObsBoard
from plangym_ext.vectorization.row_states import row_states
from plangym_ext.vectorization.seen import Seen
from plangym_ext.vectorization.unknown_space import observation_space

#: Names that `call` refuses: the vector env has to know of these calls.
OWN_CALLS = ("reset", "step", "close", "_setattr", "_check_spaces")

#: Names that begin so are those of attributes of the env under all wrappers.
UNWRAPPED = "unwrapped."

Rows = Sequence[int]


class Played(NamedTuple):
    """What came of stepping or resetting k rows; row numbers count from 0 to k - 1.

    Attributes:
        rewards: `[k]` float64.
        terminations, truncations: `[k]` bool.
        infos: `(row, info)` for each info that is not empty, or `GroupedInfos`, which hold
            the finals too.
        finals: `(row, obs, info)` of rows that ended and were reset in the same step.
        obs: observations that have no array form, one for each row; else None.
        states: of all rows of the process, None for one that was never reset; or None if
            they were not asked for or cannot be captured.
        seen: checksum of what the process's rows have shown since their states were captured or
            restored, this call included; see `Seen`. 0 from an engine whose rows cannot die.
        batch: observations of the k rows as one fresh `[k, *obs]` array, if an engine has
            them so; they are on the board as well.
    """

    rewards: np.ndarray
    terminations: np.ndarray
    truncations: np.ndarray
    infos: Iterable[tuple[int, dict[str, Any]]]
    finals: list[tuple[int, Any, dict[str, Any]]]
    obs: list[Any] | None
    states: list[np.ndarray | None] | None
    seen: int = 0
    batch: np.ndarray | None = None


class LiveRows:
    """Some rows of a vector env, in this process.

    Args:
        makes: constructor of each row's env; rows that share one have equal envs.
        first: number of the first row, for messages.
        state: how states are captured: as for `GymEnv`, or "off" for no states.
        check, trust: as for `GymEnv`.

    Attributes:
        board: the observations, if `use` gave some memory; until then there is none.
    """

    def __init__(
        self,
        makes: Sequence[Callable[[], Any]],
        *,
        first: int = 0,
        state: str = "auto",
        check: bool = True,
        trust: bool = False,
    ) -> None:
        self._first = first
        self.envs: list[gym.Env[Any, Any]] = []
        self._fresh = [True] * len(makes)
        self._seen = Seen()
        try:
            # All of them first: a constructor may hand out what others have left.
            for make in makes:
                self.envs.append(made_env(make))
            #: How each row's state is captured, or why it cannot be.
            self._states = row_states(makes, self.envs, state=state, check=check, trust=trust)
            for row, found in enumerate(self._states):
                if isinstance(found, LateState):
                    self.envs[row] = found.env
        except BaseException:
            self.close()
            raise
        self.board: ObsBoard

    def description(self) -> dict[str, Any]:
        """What the vector env has to know: spaces of every row, and the first env's own."""
        first = self.envs[0]
        return {
            "observation_spaces": [observation_space(env) for env in self.envs],
            "action_spaces": [env.action_space for env in self.envs],
            "metadata": dict(first.metadata),
            "render_mode": first.render_mode,
            "name": first.spec.id if first.spec else type(first.unwrapped).__name__,
            "captures": [isinstance(state, LateState) for state in self._states],
            "no_states": [str(s) if isinstance(s, IncompleteState) else "" for s in self._states],
        }

    def use(self, board: ObsBoard) -> None:
        """Write observations there from now on; row 0 of this process is row `first` there."""
        self.board = board

    # Playing ------------------------------------------------------------------------

    def reset(
        self,
        rows: Rows,
        seeds: Sequence[int | None],
        options: dict[str, Any] | None,
        capture: bool = False,
    ) -> Played:
        """Reset rows.

        Args:
            rows: which, counted from this process's first.
            seeds: of each.
            options: for each env's `reset`.
            capture: whether to return the states too.
        """
        found = _Notes(len(rows), self.board.is_array)
        put, first = self.board.put, self._first
        for k, row in enumerate(rows):
            seed = seeds[k]
            try:
                obs, info = self.envs[row].reset(seed=seed, options=options)
            except Exception as error:
                error.add_note(f"while row {first + row} was reset, seed {seed}")
                raise
            self._fresh[row] = False
            found.add(k, obs, info)
            put(first + row, obs)
        return self._played(found, rows, capture)

    def step(
        self,
        rows: Rows,
        actions: Sequence[Any],
        resets: Sequence[bool],
        same_step: bool,
        capture: bool = False,
    ) -> Played:
        """Step rows, or reset those that are to be.

        Args:
            rows: which.
            actions: of each.
            resets: whether a row is reset instead, and its action left alone.
            same_step: reset a row that ends at once, and return what it ended with too.
            capture: whether to return the states too.
        """
        found = _Notes(len(rows), self.board.is_array)
        rewards, terminations, truncations = found.memory
        put, first, envs = self.board.put, self._first, self.envs
        for k, (row, action, reset) in enumerate(zip(rows, actions, resets, strict=True)):
            env = envs[row]
            try:
                if reset:
                    obs, info = env.reset()
                else:
                    obs, rewards[k], ended, cut, info = env.step(action)
                    terminations[k], truncations[k] = ended, cut
                    if same_step and (ended or cut):
                        # Copied: the env may use its memory again.
                        found.finals.append((k, copy.deepcopy(obs), copy.deepcopy(info)))
                        obs, info = env.reset()
            except Exception as error:
                error.add_note(f"in row {first + row}, action {action}")
                raise
            put(first + row, obs)
            found.add(k, obs, info)
        return self._played(found, rows, capture)

    def _played(self, found: _Notes, rows: Rows, capture: bool) -> Played:
        """What came of a call, and what a replay of it has to come to."""
        first, count = self._first, len(self.envs)
        at: Any = slice(first, first + count)
        if len(rows) < count:
            at = [first + row for row in rows]
        self._seen.note(found.arrays, self.board.leaves(at))
        if found.obs is not None:
            self._seen.note_values(found.obs)
        if not capture:
            return found.played(None, self._seen.value)
        self._seen.begin()
        return found.played(self._all_states(), self._seen.value)

    # Everything else ----------------------------------------------------------------

    def call(self, rows: Rows, name: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Attributes of rows' envs, or what their methods return; one a row.

        `name` may be a function of an env too.
        """
        found = []
        for row in rows:
            env = self.envs[row]
            value = functools.partial(name, env) if callable(name) else env.get_wrapper_attr(name)
            found.append(value(*args, **kwargs) if callable(value) else value)
        return found

    def set_attr(
        self, rows: Rows, name: str, values: Sequence[Any], capture: bool = False
    ) -> list[np.ndarray | None] | None:
        """Set an attribute of rows' envs; returns all states if they are to be captured."""
        for row, value in zip(rows, values, strict=True):
            env, attribute = self.envs[row], name
            if name.startswith(UNWRAPPED):
                env, attribute = env.unwrapped, name.removeprefix(UNWRAPPED)
            env.set_wrapper_attr(attribute, value)
            state = self._states[row]
            if isinstance(state, LateState):
                state.identify()
        if not capture:
            return None
        self._seen.begin()
        return self._all_states()

    def bring_back(self, states: Sequence[np.ndarray | None]) -> None:
        """Bring all rows of this process to states; None for rows that were never reset."""
        known = {row: state for row, state in enumerate(states) if state is not None}
        self.set_states(list(known), list(known.values()), None)
        self._fresh = [state is None for state in states]
        self._seen.begin()

    def get_states(self, rows: Rows) -> list[np.ndarray]:
        """`[S]` uint8 state of each row; their widths may differ.

        Raises:
            IncompleteState: a row's state cannot be captured.
            ResetNeeded: a row was never reset.
        """
        return [self._state(row).capture() for row in rows]

    def set_states(self, rows: Rows, states: Sequence[np.ndarray], observations: Any) -> None:
        """Bring rows to states.

        Args:
            rows: which.
            states: `[S]` of each.
            observations: what each row shows now, until it is stepped.

        Raises:
            StateError: a state is damaged or of another env.
        """
        for row, state in zip(rows, states, strict=True):
            if self._fresh[row]:
                # Codecs restore into an env that has been reset.
                self.envs[row].reset(seed=0)
                self._fresh[row] = False
            self._state(row).restore(state, "set_states")
        if observations is not None:
            for row, obs in zip(rows, observations, strict=True):
                self.board.put(self._first + row, obs)

    def _state(self, row: int) -> LateState:
        state = self._states[row]
        if isinstance(state, IncompleteState):
            raise IncompleteState(f"row {self._first + row}: {state}")
        if self._fresh[row]:
            raise ResetNeeded(f"row {self._first + row} was never reset. Call reset first.")
        return state

    def _all_states(self) -> list[np.ndarray | None] | None:
        try:
            return [
                None if self._fresh[row] else self._state(row).capture()
                for row in range(len(self.envs))
            ]
        except IncompleteState:
            return None

    def close(self) -> None:
        """Close every env."""
        for env in self.envs:
            env.close()


class _Notes:
    """Gathers what comes of k rows."""

    def __init__(self, num_rows: int, is_array: bool) -> None:
        self.arrays = (np.zeros(num_rows), np.zeros(num_rows, bool), np.zeros(num_rows, bool))
        #: Memory of rewards, terminations and truncations, which takes single values fast.
        self.memory: tuple[Any, ...] = tuple(array.data for array in self.arrays)
        self.infos: list[tuple[int, dict[str, Any]]] = []
        self.finals: list[tuple[int, Any, dict[str, Any]]] = []
        self.obs: list[Any] | None = None if is_array else []

    def add(self, k: int, obs: Any, info: dict[str, Any]) -> None:
        """Note what a row shows."""
        if info:
            self.infos.append((k, info))
        if self.obs is not None:
            self.obs.append(obs)

    def played(self, states: list[np.ndarray | None] | None, seen: int) -> Played:
        """All of it."""
        return Played(*self.arrays, self.infos, self.finals, self.obs, states, seen)

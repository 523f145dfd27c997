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

from plangym_ext.core.codec import layers
from plangym_ext.core.gym_env import made_env
from plangym_ext.core.late_state import Binding, LateState, binding_of
from plangym_ext.core.spaces import SpaceLayout
from plangym_ext.errors import IncompleteState, ResetNeeded
from plangym_ext.vectorization.obs_board import ObsBoard

#: Names that `call` refuses: the vector env has to know of these calls.
OWN_CALLS = ("reset", "step", "close", "_setattr", "_check_spaces")

Rows = Sequence[int]


class Played(NamedTuple):
    """What came of stepping or resetting k rows; row numbers count from 0 to k - 1.

    Attributes:
        rewards: `[k]` float64.
        terminations, truncations: `[k]` bool.
        infos: `(row, info)` for each info that is not empty; with `columns`, arrays of all
            rows by key, if an engine has them so.
        finals: `(row, obs, info)` of rows that ended and were reset in the same step.
        obs: observations that have no array form, one for each row; else None.
        states: of all rows of the process, None for one that was never reset; or None if
            they were not asked for or cannot be captured.
    """

    rewards: np.ndarray
    terminations: np.ndarray
    truncations: np.ndarray
    infos: Iterable[tuple[int, dict[str, Any]]]
    finals: list[tuple[int, Any, dict[str, Any]]]
    obs: list[Any] | None
    states: list[np.ndarray | None] | None


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
        #: How each row's state is captured, or why it cannot be.
        self._states: list[LateState | IncompleteState] = []
        self._fresh = [True] * len(makes)
        known: dict[Any, Binding | IncompleteState] = {}
        try:
            for make in makes:
                binding = known.get(make)
                if binding is None:
                    # Found with a twin: what a row has lived through is its own.
                    twin = made_env(make)
                    binding = known[make] = _found_binding(twin, known, state, check, trust)
                env = made_env(make)
                self.envs.append(env)
                if isinstance(binding, Binding):
                    found = LateState(env, binding, trusted=trust)
                    self._states.append(found)
                    self.envs[-1] = found.env
                else:
                    self._states.append(binding)
        except BaseException:
            self.close()
            raise
        self.board: ObsBoard

    def description(self) -> dict[str, Any]:
        """What the vector env has to know: spaces of every row, and the first env's own."""
        first = self.envs[0]
        return {
            "observation_spaces": [env.observation_space for env in self.envs],
            "action_spaces": [env.action_space for env in self.envs],
            "metadata": dict(first.metadata),
            "render_mode": first.render_mode,
            "name": first.spec.id if first.spec else type(first.unwrapped).__name__,
            "captures": [isinstance(state, LateState) for state in self._states],
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
        return found.played(self._all_states() if capture else None)

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
        return found.played(self._all_states() if capture else None)

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
            self.envs[row].set_wrapper_attr(name, value)
            state = self._states[row]
            if isinstance(state, LateState):
                state.identify()
        return self._all_states() if capture else None

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
        self._arrays = (np.zeros(num_rows), np.zeros(num_rows, bool), np.zeros(num_rows, bool))
        #: Memory of rewards, terminations and truncations, which takes single values fast.
        self.memory: tuple[Any, ...] = tuple(array.data for array in self._arrays)
        self.infos: list[tuple[int, dict[str, Any]]] = []
        self.finals: list[tuple[int, Any, dict[str, Any]]] = []
        self._obs: list[Any] | None = None if is_array else []

    def add(self, k: int, obs: Any, info: dict[str, Any]) -> None:
        """Note what a row shows."""
        if info:
            self.infos.append((k, info))
        if self._obs is not None:
            self._obs.append(obs)

    def played(self, states: list[np.ndarray | None] | None) -> Played:
        """All of it."""
        return Played(*self._arrays, self.infos, self.finals, self._obs, states)


def _found_binding(
    twin: gym.Env[Any, Any], known: dict[Any, Any], state: str, check: bool, trust: bool
) -> Binding | IncompleteState:
    """How states of envs like this one are captured, or why they cannot be."""
    try:
        if state == "off":
            return IncompleteState("states are off; leave out state='off' to have them")
        # Constructors that differ in what they enclose mostly make envs of one kind.
        kind = (str(twin.spec), *(type(layer) for layer in layers(twin)))
        if kind not in known:
            known[kind] = _proved_binding(twin, state, check, trust)
        found: Binding | IncompleteState = known[kind]
        return found
    finally:
        twin.close()


def _proved_binding(
    twin: gym.Env[Any, Any], state: str, check: bool, trust: bool
) -> Binding | IncompleteState:
    try:
        SpaceLayout(twin.observation_space, objects=True)  # what the proof compares
    except TypeError as error:
        return IncompleteState(f"its state cannot be captured: {error}")
    try:
        return binding_of(twin, state, check=check, trusted=trust)
    except IncompleteState as error:
        return error

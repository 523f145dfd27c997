"""ModelEnv: base class of learned models; planners step them from states like any env."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.actions import check_actions
from plangym_ext.arrays.nested import as_array, rows_of
from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.core.infos import InfoBatch, InfoColumn
from plangym_ext.core.numbers import at_least
from plangym_ext.core.one_caller import one_call
from plangym_ext.core.plan_env import PlanEnv
from plangym_ext.core.results import RowResults, StateTransition, Transition
from plangym_ext.core.row_request import RowRequest
from plangym_ext.core.rows import RowLayout
from plangym_ext.core.slot_stepper import LocalStepper
from plangym_ext.errors import (
    CannotDraw,
    InvalidObservation,
    InvalidOption,
    ResetNeeded,
    StateError,
)
from plangym_ext.states.envelope import HEADER, Envelope
from plangym_ext.states.layer_attributes import Exactness

#: Contents of states: a row of bytes each.
Contents = npt.NDArray[np.uint8]


#: Of the models of this library.
TESTED = Exactness(
    method="codec",
    proved="library",
    notes=("the last bits of a row depend on the number of rows that are stepped in one call",),
)


class Advanced(NamedTuple):
    """N rows after one step of a model; fresh arrays."""

    contents: Contents  # [N, P]
    rewards: npt.NDArray[np.float64]  # [N]
    terminated: npt.NDArray[np.bool_]  # [N]
    infos: Mapping[str, npt.NDArray[Any]] = {}  # [N] by name, those of the model's columns


class ModelEnv(LocalStepper, PlanEnv):
    """Abstract `PlanEnv` of a learned model: a batch of rows is stepped in one network call.

    States hold all that the next step reads but for the weights: rows from before an update may be
    stepped after it, and go on by the new weights. Nothing is truncated. A model has no episodes
    of its own: `states_of` returns the rows at which given observations begin, and `reset` begins
    at one of `starts`. `exact` is None unless a subclass says how its states were tested.

    Args:
        name: of the model.
        spaces: of observations and of actions.
        payload: P, bytes of a state.
        identity: what its states belong to, beside the name; see `Envelope`.
        columns: the numeric infos.
        starts: `[N, *obs]` observations of the real env; None: it cannot be reset.
    """

    backend = "model"
    frameskip = 1
    autoreset = False
    #: What a model of one's own draws or remembers beside its states is compared by nothing.
    exactness = Exactness(method="codec", proved="")

    def __init__(
        self,
        name: str,
        spaces: tuple[Any, Any],
        payload: int,
        identity: Mapping[str, Any],
        columns: tuple[InfoColumn, ...] = (),
        starts: Any = None,
    ) -> None:
        super().__init__()
        self.name, self._payload = name, payload
        # A copy: what the caller does with its array moves no episode.
        self.starts = None if starts is None else np.array(starts)
        self.envelope = Envelope({"id": name, "arguments": dict(identity)}, payload)
        obs, action = map(SpaceLayout, spaces)
        self.layout = RowLayout(obs, action, self.envelope.width, columns)
        self._state: npt.NDArray[np.uint8] | None = None
        self._rng = np.random.default_rng()
        #: Content and actions of a row -> what came of it in the real env: content, reward.
        self._known: dict[bytes, tuple[Contents, float]] = {}

    # What a model implements ----------------------------------------------------

    @abstractmethod
    def _begun(self, obs: Any) -> Contents:
        """Return the contents `[B, P]` of the states at observations `[B, *obs]`."""

    @abstractmethod
    def _advanced(self, contents: Contents, actions: tuple[npt.NDArray[Any], ...]) -> Advanced:
        """Step N >= 1 rows.

        Args:
            contents: `[N, P]`, not changed.
            actions: `[N, *act]` for each leaf of the action space.
        """

    @abstractmethod
    def _seen(self, contents: Contents) -> tuple[npt.NDArray[Any], ...]:
        """Return the observations of N rows, an array `[N, ...]` for each leaf of the space."""

    # Rows -----------------------------------------------------------------------

    def states_of(self, obs: Any) -> npt.NDArray[np.uint8]:
        """Return the states at which observations of the real env begin.

        Args:
            obs: `[B, *obs]`.

        Returns:
            `[B, S]` uint8, fresh.
        """
        return self._sealed(self._begun(obs))

    def obs_of(self, states: Any) -> Any:
        """Return the model's observations of states `[B, S]`, as `step_batch` would."""
        rows = self.checked_states(states, "obs_of")
        return self.layout.obs.join(self._seen(self._contents(rows)))

    def correct(
        self, states: Any, actions: Any, following: Any, rewards: npt.NDArray[np.float64]
    ) -> None:
        """Return these observed results for these states and actions from now on.

        A result counts as the only one, which is true of envs without chance.

        Args:
            states: `[B, S]` rows at the observations before the steps.
            actions: `[B, *act]` that were played.
            following: `[B, S]` rows at those after them; no episode has ended.
            rewards: `[B]`; NaN: not known, the model's own.
        """
        rows = [self.checked_states(one, "correct") for one in (states, following)]
        # In the space's own dtypes, as steps have them: bytes of others would never be met.
        parts = check_actions(self.layout.action, actions, (-1,), "correct")
        sizes = {np.shape(one)[:1] for one in (*rows, *parts, rewards)}
        if len(sizes) > 1:
            raise InvalidOption(
                f"correct: states, actions, following and rewards must have a row for each step; "
                f"got {sorted(sizes)} rows."
            )
        before, after = map(self._contents, rows)
        for row, key in enumerate(_keys(before, parts)):
            self._known[key] = after[row], float(rewards[row])

    def forget_corrections(self) -> None:
        """Return the model's own predictions again."""
        self._known.clear()

    def _as_known(
        self, contents: Contents, actions: tuple[npt.NDArray[Any], ...], found: Advanced
    ) -> Advanced:
        """Return N rows after a step, some of which the real env has taken."""
        for row, key in enumerate(_keys(contents, actions)):
            if key in self._known:
                content, reward = self._known[key]
                found.contents[row], found.terminated[row] = content, False
                found.rewards[row] = found.rewards[row] if math.isnan(reward) else reward
        return found

    def _sealed(self, contents: Contents) -> npt.NDArray[np.uint8]:
        rows = np.zeros((len(contents), self.envelope.width), np.uint8)
        rows[:, HEADER : HEADER + self._payload] = contents
        self.envelope.seal(rows, self._payload)
        return rows

    def _contents(self, states: npt.NDArray[np.uint8]) -> Contents:
        # A copy, also where a single row lies as it should: rows are stepped in place.
        return states[:, HEADER : HEADER + self._payload].copy()

    def _run_rows(self, request: RowRequest) -> RowResults:
        size, horizon = request.num_rows, request.horizon
        held = np.broadcast_to(request.dt, size).astype(np.int32)
        contents = self._contents(request.states)
        rewards, over = np.zeros((size, horizon)), np.zeros(size, np.bool_)
        steps, taken = np.zeros((2, size), np.int32)
        infos = {c.key: np.zeros((size, *c.shape), c.dtype) for c in self.layout.info}
        for h in range(horizon):
            steps += ~over
            for repeat in range(int(held.max(initial=0))):
                now: Any = np.flatnonzero(~over & (held > repeat))
                if not len(now):
                    break
                # Views, where they are all: the usual step of a search.
                now = slice(None) if len(now) == size else now
                actions = tuple(a[now, h] for a in request.actions)
                found = self._advanced(contents[now], actions)
                if self._known:
                    found = self._as_known(contents[now], actions, found)
                contents[now], over[now] = found.contents, found.terminated
                rewards[now, h] += found.rewards
                taken[now] += 1
                for name, column in found.infos.items():
                    infos[name][now] = column
        shown = {} if request.infos == "none" else infos
        batch = InfoBatch({**shown, "n_step": taken, "dt": held}, {})
        states, cut = self._sealed(contents), np.zeros(size, np.bool_)
        seen = self._seen(contents)
        return RowResults(states, rewards, over, cut, steps, seen, batch)

    def _first_state(self) -> npt.NDArray[np.uint8]:
        return self.get_state()

    def widen(self, width: int) -> None:
        """Refuse: all states of a model are equally wide."""
        raise StateError(f"{self.name}: states must be {self.state_width} bytes wide; got {width}.")

    def reseeded(self, states: Any, rng: np.random.Generator | None) -> npt.NDArray[np.uint8]:  # noqa: ARG002
        """Return a copy: nothing is drawn; see `PlanEnv.reseeded`."""
        return self.checked_states(states, "reseeded").copy()

    # The env to play ------------------------------------------------------------

    @one_call
    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,  # noqa: ARG002 - gymnasium's
        return_state: bool = True,
    ) -> Any:
        """Begin at one of `starts`; see `PlanEnv.reset`.

        Raises:
            ResetNeeded: there are none.
        """
        self._check_rows_free("reset")
        if self.starts is None or not len(self.starts):
            raise ResetNeeded(
                f"{self.name}: a model begins at observations of the real env; it has no starts. "
                f"Make it with starts=[N, *obs], or plan from states_of(obs)."
            )
        if seed is not None:
            self._rng = np.random.default_rng(at_least("reset: seed", seed, 0))
        which = self._rng.integers(len(self.starts))
        self._state = self.states_of(self.starts[which : which + 1])[0]
        self._continued.drop()
        obs = rows_of(self.obs_of(self._state[None]), 0)
        return (self._state.copy(), obs, {}) if return_state else (obs, {})

    def step(
        self, action: Any, state: Any = None, dt: int = 1, return_state: bool | None = None
    ) -> Any:
        """Advance the model; see `PlanEnv.step`."""
        begin = self.get_state() if state is None else np.asarray(state)
        # A single array is checked as it is; `stack` would cast it.
        actions: Any = (
            [action] if self.layout.action.is_flat else self.layout.action.stack([action])
        )
        found = self.step_batch(actions, begin[None], dt)
        if state is None:
            self._state = found.states[0]
        obs = rows_of(found.obs, 0)
        told = float(found.rewards[0]), bool(found.terminateds[0]), False, found.infos[0]
        if return_state if return_state is not None else state is not None:
            return StateTransition(found.states[0].copy(), obs, *told)
        return Transition(obs, *told)

    def get_state(self) -> npt.NDArray[np.uint8]:
        """Return a fresh `[S]` uint8 array; see `PlanEnv.get_state`.

        Raises:
            ResetNeeded: before `reset` and `set_state`.
        """
        if self._state is None:
            raise ResetNeeded(f"{self.name}: it has no state yet. Call reset or set_state first.")
        return self._state.copy()

    def _set_env_state(self, state: npt.NDArray[np.uint8]) -> None:
        self._state = state.copy()

    def clone(self, **overrides: Any) -> Self:
        """Return another env over the same network; see `PlanEnv.clone`.

        Raises:
            InvalidOption: anything is to be changed.
        """
        if overrides:
            raise InvalidOption(f"{self.name}: clone takes no changes; got {sorted(overrides)}.")
        made = copy.copy(self)
        # What belongs to one caller is made anew: rows, slots, the lock.
        LocalStepper.__init__(made)
        made._state, made._known = None, dict(self._known)
        made._rng = copy.deepcopy(self._rng)
        return made

    def render(self) -> Any:
        """Refuse: a model has no picture.

        Raises:
            CannotDraw: always.
        """
        raise CannotDraw(f"{self.name}: a learned model has no picture. Draw the env's.")

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata without render modes."""
        return {"render_modes": []}

    def close(self) -> None:
        """Do nothing: a model holds no processes."""


def checked_obs(where: str, obs: Any, space: Any) -> npt.NDArray[Any]:
    """Return observations of the real env as an array `[B, *obs]`.

    Raises:
        InvalidObservation: they have another shape, or are no numbers.
    """
    rows = as_array(obs, where, InvalidObservation)
    if rows.dtype.kind not in "biuf" or rows.ndim == 0 or rows.shape[1:] != space.shape:
        shape = ", ".join(["B", *map(str, space.shape)])
        raise InvalidObservation(
            f"{where} must be [{shape}] numbers, observations of {space}; got {rows.shape} "
            f"{rows.dtype}. One observation is a batch as obs[None]."
        )
    return rows


def _keys(contents: Contents, actions: tuple[npt.NDArray[Any], ...]) -> Iterator[bytes]:
    """Yield the content and the actions of each of N rows, as one key."""
    for row, content in enumerate(contents):
        yield content.tobytes() + b"".join(part[row].tobytes() for part in actions)

"""A gymnasium env in this process, made exactly restorable: the serial backend."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any, Self

import gymnasium as gym
import numpy as np

from plangym_ext.arrays.spaces import ObsWriter, SpaceLayout, check_actions
from plangym_ext.core.drawing import picture
from plangym_ext.core.infos import InfoWriter
from plangym_ext.core.invalid import ValuePolicy, checked_policy
from plangym_ext.core.numbers import at_least
from plangym_ext.core.one_caller import one_call
from plangym_ext.core.plan_env import PlanEnv
from plangym_ext.core.results import RowResults, StateTransition, Transition
from plangym_ext.core.row_loop import RowError, RowLoop
from plangym_ext.core.row_request import RowRequest, checked_dt
from plangym_ext.core.rows import RowBatch, RowLayout
from plangym_ext.core.slot_stepper import LocalStepper
from plangym_ext.errors import EnvClosed, ResetNeeded, add_note
from plangym_ext.states.envelope import HEADER, stacked_rows
from plangym_ext.states.late_state import first_codec
from plangym_ext.states.live_state import LiveState
from plangym_ext.states.part import StateTooWide
from plangym_ext.states.reseeding import generator_words, reseed
from plangym_ext.states.trials.sampling import info_of, sampled


class GymEnv(LocalStepper, PlanEnv):
    """One gymnasium env and a loop over rows: the reference for every backend.

    Args:
        make: callable that returns a gymnasium env. It is called once here, and
            once more for each `clone`.
        name: shown in messages; the env's own id if None.
        frameskip: env steps for which one control step holds an action.
        autoreset: whether `step` without a state resets an env that ended.
        state: how the state is captured: "auto" for the first way that proves itself,
            a name out of `codec.METHODS`, or "approximate" for a family's inexact way.
        check: whether the way must pass a short round trip now; `exact` is None without it.
        trust: open pickles in states that another session made. They can run any code.
        invalid: what batches do about rewards and observations that are not a number, or
            infinite where the space has a bound: "raise" `InvalidObservation`, "mark" the
            rows in an info column `invalid`, "off", or "strict": as "raise", and finite
            observations out of their space's bounds are refused as well.

    Raises:
        IncompleteState: the env's state cannot be captured exactly.
        TypeError: `make` returned something else, or a space has no array form.
    """

    backend = "serial"

    def __init__(
        self,
        make: Callable[[], gym.Env[Any, Any]],
        *,
        name: str | None = None,
        frameskip: int = 1,
        autoreset: bool = True,
        state: str = "auto",
        check: bool = True,
        trust: bool = False,
        invalid: str = "raise",
    ) -> None:
        super().__init__()
        self._invalid = checked_policy(invalid, "GymEnv")
        frameskip = at_least("GymEnv: frameskip", frameskip, 1)
        self._arguments: dict[str, Any] = {
            "make": make,
            "name": name,
            "frameskip": frameskip,
            "autoreset": autoreset,
            "state": state,
            "check": check,
            "trust": trust,
            "invalid": invalid,
        }
        self.gym_env = made_env(make)
        self.frameskip, self.autoreset = frameskip, autoreset
        spec = self.gym_env.spec
        self.name = name or (spec.id if spec else type(self.gym_env.unwrapped).__name__)
        self._closed = False
        #: Whether there is a state: the env was reset, or a state was set.
        self.is_reset = False
        self._is_proved = check
        try:
            self._prepare(state, check=check, trust=trust)
        except BaseException:
            self.gym_env.close()
            raise

    def _prepare(self, state: str, *, check: bool, trust: bool) -> None:
        """Find codec and layout from a reset and one step, which leave no trace."""
        obs_layout = SpaceLayout(self.gym_env.observation_space, objects=True)
        action_layout = SpaceLayout(self.gym_env.action_space)
        self.gym_env, self.codec, _ = first_codec(self.gym_env, state, check=check, trusted=trust)
        # A seed, so that equal envs find equal fields and widths in every process.
        shown = info_of(self.gym_env.reset(seed=0))
        self._live = LiveState(self.gym_env, self.codec, self.name)
        self.envelope = self._live.envelope
        # A copy: to seed the env's own space would change what its user samples.
        probe = copy.deepcopy(self.gym_env.action_space)
        probe.seed(0)
        *_, info = self.gym_env.step(sampled(probe, shown))
        self.obs_writer = ObsWriter(obs_layout)
        self.info_writer = InfoWriter(info)
        self.values = ValuePolicy(self._invalid, self.name, obs_layout, self.info_writer.columns)
        self.layout = RowLayout(obs_layout, action_layout, self.envelope.width, self.values.columns)
        # A worker's env is only ever restored into, which a fresh reset allows.
        self.gym_env.reset(seed=0)

    # The env proper -------------------------------------------------------------

    @one_call
    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,
        return_state: bool = True,
    ) -> Any:
        """Start a new episode; see `PlanEnv.reset`."""
        self._check_open("reset")
        self._check_rows_free("reset")
        if seed is None and not self.is_reset:
            # The probe seeded the env; without a seed the caller expects a fresh one.
            seed = int(np.random.SeedSequence().generate_state(1)[0] >> 1)
        obs, info = self.gym_env.reset(seed=seed, options=options)
        self.is_reset = True
        # Rows begin anew where the env is now.
        self._continued.drop()
        return (self.get_state(), obs, info) if return_state else (obs, info)

    @one_call
    def step(
        self,
        action: Any,
        state: np.ndarray | None = None,
        dt: int = 1,
        return_state: bool | None = None,
    ) -> Any:
        """Advance the env; see `PlanEnv.step`."""
        self._check_open("step")
        leaves = check_actions(self.layout.action, action, (), "step")
        repeats = int(checked_dt(dt, None, "step")) * self.frameskip
        if state is not None:
            self._set_env_state(self._checked_state(state, "step"))
        elif not self.is_reset:
            raise ResetNeeded("step: the env was never reset. Call reset first, or pass a state.")
        total, taken = 0.0, 0
        for _ in range(repeats):
            # An env may keep what it is given, or write into it.
            action = self.layout.action.join(tuple(leaf[()].copy() for leaf in leaves))
            obs, reward, terminated, truncated, info = self.gym_env.step(action)
            total += float(reward)
            taken += 1
            if terminated or truncated:
                break
        info = {**info, "n_step": taken, "dt": int(dt)}
        result = Transition(obs, total, bool(terminated), bool(truncated), info)
        wanted = return_state or (return_state is None and state is not None)
        # Before the reset below: it is the state of the ending.
        final = self.get_state() if wanted else None
        if (terminated or truncated) and self.autoreset and state is None:
            self.gym_env.reset()
        return result if final is None else StateTransition(final, *result)

    @property
    def exact(self) -> bool | None:
        """Whether restored futures equal the real ones; see `PlanEnv.exact`."""
        return self._is_proved or None if self.codec.exact else False

    def note_proof(self) -> None:
        """Note that a check has found every restored future equal to the real one."""
        self._is_proved = True

    @property
    def step_seconds(self) -> float | None:
        """What an env step took when the env was made; None if its states were not proved."""
        return self.codec.step_seconds

    @one_call
    def get_state(self) -> np.ndarray:
        """Return a fresh `[S]` uint8 array; see `PlanEnv.get_state`."""
        self._check_open("get_state")
        if not self.is_reset:
            raise ResetNeeded("get_state: the env was never reset. Call reset or set_state first.")
        state = self._live.capture()
        # The capture has outgrown its row and made a wider one.
        if self._live.envelope is not self.envelope:
            self.widen(self._live.envelope.width)
        return state

    def widen(self, width: int) -> None:
        """Make room for states of `width` bytes; see `RowStepper.widen`."""
        self._live.widen(width)
        self.envelope = self._live.envelope
        self.layout = dataclasses.replace(self.layout, state_width=self.envelope.width)

    @one_call
    def reseeded(self, states: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
        """Return states with other random numbers to come; see `PlanEnv.reseeded`."""
        self._check_open("reseeded")
        rows = self.checked_states(states, "reseeded")
        here = self.get_state() if self.is_reset else None
        found = []
        try:
            for row, words in zip(rows, generator_words(rng, len(rows)), strict=True):
                self.codec.restore(row.copy().data, HEADER)
                reseed(self.gym_env, self.codec, words)
                found.append(self._live.capture())
        finally:
            if here is not None:
                self.codec.restore(here.data, HEADER)
        return stacked_rows(found)

    def _set_env_state(self, state: np.ndarray) -> None:
        self._check_open("set_state")
        self._live.bring(state, is_reset=self.is_reset)
        self.is_reset = True

    def render(self) -> Any:
        """Return a picture of the env; see `PlanEnv.render`."""
        self._check_open("render")
        return picture(self.gym_env, self.name)

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata of the gymnasium env; see `PlanEnv.metadata`."""
        return self.gym_env.metadata

    # Rows -----------------------------------------------------------------------

    def _first_state(self) -> np.ndarray:
        if not self.is_reset:
            raise ResetNeeded(
                "step_batch: there are no rows to continue yet. Call reset first, or pass states."
            )
        return self.get_state()

    def _run_rows(self, request: RowRequest) -> RowResults:
        self._check_open("step_batch")
        # The rows run on the one env there is, which then goes back to its place.
        here = self.get_state() if self.is_reset and request.num_rows else None
        try:
            # Once more whenever a state outgrows its row: inputs are loaded anew, and no row of the
            # failed attempt counts.
            while True:
                given, infos = request.out, request.infos
                batch = RowBatch(self.layout, request.num_rows, request.horizon, None, given, infos)
                batch.load(request)
                try:
                    if request.num_rows:
                        RowLoop(self, batch).run(0, request.num_rows)
                    return batch.results(copy=False)
                except RowError as error:
                    if not isinstance(error.reason, StateTooWide):
                        note = f"{self.name}: in row {error.row}, action {error.action}"
                        add_note(error.reason, note)
                        # The env's own error: callers catch its type, and the row is in a note.
                        raise error.reason from None
                    self.widen(self.wider(error.reason.excess))
        finally:
            # Even after an error: a batch with states never moves the env.
            if here is not None:
                self.codec.restore(here.data, HEADER)

    # Life -----------------------------------------------------------------------

    def clone(self, **overrides: Any) -> Self:
        """Return a new env with the same settings; see `PlanEnv.clone`."""
        return type(self)(**{**self._arguments, **overrides})

    def close(self) -> None:
        """Close the gymnasium env."""
        if not self._closed:
            self._closed = True
            self.gym_env.close()

    def _check_open(self, where: str) -> None:
        if self._closed:
            raise EnvClosed(f"{where}: this {self.name} env is closed. Make a new one.")


def made_env(make: Callable[[], Any]) -> gym.Env[Any, Any]:
    """Return the gymnasium env that a constructor makes.

    Raises:
        TypeError: it is not callable, or makes something else.
    """
    if not callable(make):
        raise TypeError(
            f"GymEnv: make must be a callable that returns a gymnasium env; got {make!r}. "
            "Pass a function such as `lambda: gymnasium.make(...)`, so that it can be cloned."
        )
    env = make()
    if not isinstance(env, gym.Env):
        raise TypeError(
            f"GymEnv: make() must return a gymnasium.Env; got {type(env).__module__}."
            f"{type(env).__qualname__}"
        )
    return env

"""GymEnv: the serial backend, one gymnasium env in this process with exact restores."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, Self

import gymnasium as gym
import numpy as np

from plangym_ext.arrays.actions import check_actions
from plangym_ext.arrays.nested import reward_of
from plangym_ext.arrays.spaces import ObsWriter, SpaceLayout
from plangym_ext.core.drawing import Film, picture
from plangym_ext.core.infos import InfoWriter
from plangym_ext.core.invalid import ValuePolicy, checked_policy
from plangym_ext.core.made_env import check_space, close_env, made_env
from plangym_ext.core.numbers import at_least
from plangym_ext.core.one_caller import one_call
from plangym_ext.core.options import Count
from plangym_ext.core.plan_env import PlanEnv
from plangym_ext.core.results import RowResults, StateTransition, Transition
from plangym_ext.core.row_loop import RowError, RowLoop
from plangym_ext.core.row_request import RowRequest, checked_dt
from plangym_ext.core.rows import RowBatch, RowLayout
from plangym_ext.core.slot_stepper import LocalStepper
from plangym_ext.core.typed_arguments import checking_arguments
from plangym_ext.errors import EnvClosed, ResetNeeded, WrongKind, add_note
from plangym_ext.states.codec import StateCodec
from plangym_ext.states.envelope import HEADER, stacked_rows
from plangym_ext.states.layer_attributes import Binding, Exactness
from plangym_ext.states.live_state import LiveState, state_identity
from plangym_ext.states.part import StateTooWide
from plangym_ext.states.randomness.reseeding import generator_words, reseed
from plangym_ext.states.trials.audit import Audit, checked_audit, shown
from plangym_ext.states.trials.choice import is_audited, prove
from plangym_ext.states.trials.sampling import checked_reset


class GymEnv(LocalStepper, PlanEnv):
    """One gymnasium env and a loop over rows: the reference for every backend.

    How its state is captured is tried on a copy: the env stays as `make` made it until it is
    reset or brought to a state.

    Args:
        make: callable that returns a gymnasium env. It is called once here, and
            once more for each `clone`.
        name: shown in messages; the env's own id if None.
        frameskip: env steps for which one control step holds an action.
        autoreset: whether `step` without a state resets an env that ended.
        capture: how the state is captured: "auto" for a way that proves itself, or
            a name out of `codec.METHODS`, or "approximate" for a family's inexact way.
        check: whether the way must prove itself now, on a copy of the env, or the seconds that this
            may take; `exact` is None without it.
        trust: open pickles in states that another session made. They can run any code.
        invalid: what batches do about rewards and observations that are not a number, or
            infinite where the space has a bound: "raise" `InvalidObservation`, "mark" the
            rows in an info column `invalid`, "off", or "strict": as "raise", and finite
            observations out of their space's bounds are refused as well.
        binding: of an equal env, which spares the proof.
        audit: what is done when a future that is played again, while states are in use, differs
            from the real one: "raise" `InexactState`, "warn", or "off" for no such audits.

    Raises:
        IncompleteState: the env's state cannot be captured exactly.
        TypeError: `make` returned something else, or a space has no array form.
    """

    backend = "serial"
    #: Films what `step` plays, and not rows; None: nothing is filmed. See `run/video.py`.
    film: Film | None = None

    @checking_arguments
    def __init__(
        self,
        make: Callable[[], gym.Env[Any, Any]],
        *,
        name: str | None = None,
        frameskip: Count = 1,
        autoreset: bool = True,
        capture: str = "auto",
        check: bool | float = True,
        trust: bool = False,
        invalid: str = "raise",
        binding: Binding | None = None,
        audit: str = "raise",
    ) -> None:
        super().__init__()
        self._invalid, frameskip = checked_policy(invalid, "GymEnv"), int(frameskip)
        self._arguments: dict[str, Any] = {
            "make": make,
            "name": name,
            "frameskip": frameskip,
            "autoreset": autoreset,
            "capture": capture,
            "check": check,
            "trust": trust,
            "invalid": invalid,
            "audit": checked_audit(audit, "GymEnv"),
        }
        self.gym_env = made_env(make)
        self.frameskip, self.autoreset = frameskip, autoreset
        spec = self.gym_env.spec
        self.name = name or (spec.id if spec else type(self.gym_env.unwrapped).__name__)
        self._closed = False
        self.is_reset = False  # whether there is a state
        #: Whether the env was reset without its user's asking, to be brought to a state.
        self._was_begun = False
        try:
            for name in ("observation_space", "action_space"):
                check_space(self.gym_env, name)
            if binding is None:
                binding = prove(self.gym_env, capture, check=check, trusted=trust, make=make)
            self._prepare(binding, audit, trust=trust)
        except BaseException:
            close_env(self.gym_env)
            raise

    def _prepare(self, binding: Binding, audit: str, *, trust: bool) -> None:
        """Lay out rows by what was learned of a copy of the env."""
        obs_layout = SpaceLayout(self.gym_env.observation_space, objects=True)
        action_layout = SpaceLayout(self.gym_env.action_space)
        self.binding, self._exactness = binding, binding.exactness
        watched = is_audited(self.gym_env, binding)
        self.audit = Audit(self.name, audit if watched else "off", [binding])
        self._live = LiveState(self.gym_env, binding, self.name, trusted=trust)
        self.gym_env, self.envelope = self._live.env, self._live.envelope
        self.obs_writer = ObsWriter(obs_layout)
        self.info_writer = InfoWriter(binding.info)
        self.values = ValuePolicy(self._invalid, self.name, obs_layout, self.info_writer.columns)
        self.layout = RowLayout(obs_layout, action_layout, self.envelope.width, self.values.columns)

    @property
    def codec(self) -> StateCodec:
        """Captures and restores states; its first use resets an env that was never reset."""
        if not (self.is_reset or self._was_begun):
            self.gym_env.reset(seed=0)
            self._was_begun = True
        return self._live.codec

    def own_identity(self) -> dict[str, Any]:
        """Return the identity of this env's states, from its own codec and binding."""
        parts = self.codec.identity()
        return state_identity(self.gym_env, self.binding, parts, self.name)

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
        if seed is None and self._was_begun and not self.is_reset:
            # It was seeded to be brought to a state; without a seed the caller expects a fresh one.
            seed = int(np.random.SeedSequence().generate_state(1)[0] >> 1)
        seed = None if seed is None else at_least("reset: seed", seed, 0)
        if not isinstance(options, Mapping | None):
            raise WrongKind(f"reset: options must be a dict or None; got {options!r}")
        self._end_sample()
        result = self.gym_env.reset(seed=seed, options=options)
        obs, info = checked_reset(self.gym_env, result)
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
        total, taken, film = 0.0, 0, self.film
        if film is not None:
            film.on = True
        for _ in range(repeats):
            # An env may keep what it is given, or write into it.
            action = self.layout.action.join(tuple(leaf[()].copy() for leaf in leaves))
            obs, reward, terminated, truncated, info = self.gym_env.step(action)
            total += reward_of(reward)
            taken += 1
            if self.audit.sample is not None:
                self._note(action, obs, reward, terminated, truncated)
            if film is not None:
                film.after_step()
            if terminated or truncated:
                break
        if film is not None:
            film.on = False
        info = {**(info or {}), "n_step": taken, "dt": int(dt)}
        result = Transition(obs, total, bool(terminated), bool(truncated), info)
        wanted = return_state or (return_state is None and state is not None)
        # Before the reset below: it is the state of the ending.
        final = self.get_state() if wanted else None
        if (terminated or truncated) and self.autoreset and state is None:
            first, _ = checked_reset(self.gym_env, self.gym_env.reset())
            if self.audit.sample is not None:
                self._note(None, first)
        return result if final is None else StateTransition(final, *result)

    def _note(self, *played: Any) -> None:
        """Record an action, or None for a reset, and its result, for an audit."""
        action, *result = played
        if self.audit.note(action, shown(self.layout.obs, *result)):
            self.audit.start(self.gym_env, self.codec)

    def _end_sample(self) -> None:
        """Audit what was played so far after a state, as the env goes elsewhere now."""
        if self.audit.sample is not None and self.audit.sample.actions:
            self.audit.start(self.gym_env, self.codec)
        self.audit.sample = None

    @property
    def exact(self) -> bool | None:
        return self._exactness.exact

    @property
    def exactness(self) -> Exactness:
        return dataclasses.replace(self._exactness, audits=self.audit.passed)

    @exactness.setter
    def exactness(self, found: Exactness) -> None:
        self._exactness = found

    @property
    def incomparable(self) -> str:
        return self.codec.incomparable

    @property
    def step_seconds(self) -> float | None:
        """Seconds of an env step, measured in the proof of its states; None without one."""
        return self.binding.step_seconds

    @one_call
    def get_state(self) -> np.ndarray:
        self._check_open("get_state")
        if not self.is_reset:
            raise ResetNeeded("get_state: the env was never reset. Call reset or set_state first.")
        state = self._live.capture()
        if self.audit.sample is None and self.audit.is_due():
            self.audit.open(state[HEADER:])
        # The capture has outgrown its row and made a wider one.
        if self._live.envelope is not self.envelope:
            self.widen(self._live.envelope.width)
        return state

    def widen(self, width: int) -> None:
        self._live.widen(width)
        self.envelope = self._live.envelope
        self.layout = dataclasses.replace(self.layout, state_width=self.envelope.width)

    @one_call
    def reseeded(self, states: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
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
        assert self.codec is not None  # bound, to an env that has been reset
        self._end_sample()
        self._live.bring(state, is_reset=self.is_reset)
        self.is_reset = True

    def render(self) -> Any:
        self._check_open("render")
        return picture(self.gym_env, self.name)

    @property
    def metadata(self) -> dict[str, Any]:
        return self.gym_env.metadata

    # Rows -----------------------------------------------------------------------

    def _first_state(self) -> np.ndarray:
        self._check_open("step_batch")
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
        return self.constructor(**overrides)

    @property
    def constructor(self) -> Callable[..., Self]:
        """Constructor of an equal env in any process, with some settings changed."""
        return functools.partial(type(self), **self._arguments)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.audit.close()
            close_env(self.gym_env)

    def _check_open(self, where: str) -> None:
        if self._closed:
            raise EnvClosed(f"{where}: this {self.name} env is closed. Make a new one.")

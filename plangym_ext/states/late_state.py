"""States of an env that its user plays: the library itself never resets it to look at it.

A codec is bound to an env that has been reset: it looks at what is there, and what it learns
of that decides how states are written. `plangym_ext.make` resets an env for it. An env that
is the user's own may not be reset (its wrappers would count and remember that), so what is to
be learned is learned from a twin, and the codec is bound when the first state is wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from plangym_ext.states.codec import StateCodec, layers, with_recorder
from plangym_ext.states.extra_fields import plain_fields
from plangym_ext.states.families import family_of
from plangym_ext.states.live_state import LiveState
from plangym_ext.states.trials.choice import choose_codec


@dataclass(frozen=True)
class Binding:
    """How the states of equal envs are captured, as plain data.

    Attributes:
        method: one of `codec.METHODS`, or "approximate".
        width: bytes of a payload.
        learned: what each part took from the moment at which it was bound.
        note: what the proof that they are exact leaves open; "" if nothing.
    """

    method: str
    width: int
    learned: tuple[Any, ...]
    note: str = ""


def first_codec(
    env: gym.Env[Any, Any], state: str, *, check: bool, trusted: bool
) -> tuple[gym.Env[Any, Any], StateCodec, Mapping[str, bytes]]:
    """Reset an env that is not played and choose how its state is captured.

    Args:
        env: with the state of a new one; it is left reset and moved.
        state: as for `GymEnv`.
        check: as for `GymEnv`.
        trusted: as `trust` for `GymEnv`.

    Returns:
        The env, perhaps with a recorder in its stack; the codec bound to it; and the plain
        fields that its simulator had before the first reset.

    Raises:
        IncompleteState: there is no exact way.
    """
    # Before the fields are read: what it sets is not what a reset has changed.
    _prepare(env, state)
    before = plain_fields(layers(env)[-1])
    env.reset(seed=0)
    # Bound after a reset: a codec looks at what the simulator holds by then.
    env, codec = choose_codec(env, state, check=check, trusted=trusted)
    return env, codec, before


def _prepare(env: gym.Env[Any, Any], state: str) -> None:
    simulator = layers(env)[-1]
    family = family_of(simulator)
    prepare = family.load_prepare() if family is not None else None
    if prepare is not None and state in ("auto", "codec"):
        prepare(simulator)


def binding_of(twin: gym.Env[Any, Any], state: str, *, check: bool, trusted: bool) -> Binding:
    """Return what binds codecs to envs that equal `twin`, which is not played.

    Raises:
        IncompleteState: there is no exact way to capture its state.
    """
    _, codec, before = first_codec(twin, state, check=check, trusted=trusted)
    return Binding(codec.method, codec.width, codec.learned(before), codec.check_note)


class LateState:
    """The state of an env that was never reset; bound to it when the first one is wanted.

    Args:
        env: never reset by the library, before or after.
        binding: of its twin.
        trusted: open pickles that another session made.

    Attributes:
        env: to be played: `env`, perhaps with a recorder in its stack.
        note: as of `Binding`.
    """

    def __init__(self, env: gym.Env[Any, Any], binding: Binding, *, trusted: bool = False) -> None:
        _prepare(env, binding.method)
        # Before its user resets it: the fields that differ later are those that a reset touches.
        self._before = plain_fields(layers(env)[-1])
        self.env = with_recorder(env, binding.method)
        self._binding, self._trusted = binding, trusted
        self.note = binding.note
        self._live: LiveState | None = None
        self._was_set = False

    def _bound(self) -> LiveState:
        if self._live is None:
            codec = StateCodec(self.env, self._binding.method, trusted=self._trusted)
            codec.adopt(self._binding.learned, self._before)
            # Whatever this instance holds by now: rows of all equal envs are as wide as the twin's.
            codec.width = self._binding.width
            if self._was_set:
                codec.fixed.rebase()
            self._live = LiveState(self.env, codec)
        return self._live

    def identify(self) -> None:
        """Identify; see `LiveState.identify`."""
        # Before the first state there is no fingerprint that could be out of date.
        self._was_set = True
        if self._live is not None:
            self._live.identify()

    def capture(self) -> np.ndarray:
        """Capture; see `LiveState.capture`, of an env that has been reset."""
        return self._bound().capture()

    def restore(self, state: np.ndarray, where: str) -> None:
        """Restore; see `LiveState.restore`, into an env that has been reset."""
        self._bound().restore(state, where)

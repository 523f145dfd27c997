"""States of an env that is being played: captured where it stands, restored where it stands."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import gymnasium as gym
import numpy as np

from plangym_ext.core.choice import choose_codec
from plangym_ext.core.codec import StateCodec, layers
from plangym_ext.core.envelope import HEADER, Envelope
from plangym_ext.core.gym_env import state_identity
from plangym_ext.core.part import StateTooWide
from plangym_ext.core.snapshot import LayerAttributes


class LiveState:
    """Reads and sets the state of one env; equal to the states of `plangym_ext.make`.

    What a codec is bound to decides how some states are written, so all instances are bound
    at the same moment: behind the first reset, with seed 0. What wrappers remember of that
    reset is taken back, and the env itself is to be reset before it is played.

    Args:
        env: never reset.
        method: how its state is captured, from `state_method`.
        trusted: open pickles that another session made.
    """

    def __init__(self, env: gym.Env[Any, Any], method: str, *, trusted: bool = False) -> None:
        untouched = _wrappers_state(env)
        env.reset(seed=0)
        self._env, self._codec = env, StateCodec(env, method, trusted=trusted)
        for attributes, values in untouched:
            attributes.assign(values)
        self.identify()

    def identify(self) -> None:
        """Look at what states belong to once more: an attribute of the env was set."""
        identity = state_identity(self._env, self._codec, type(self._env.unwrapped).__name__)
        self._envelope = Envelope(identity, self._codec.width)
        self._widen(self._envelope.width)

    def _widen(self, width: int) -> None:
        self._envelope = Envelope(self._envelope.identity, width - HEADER)
        self._codec.width = self._envelope.width - HEADER

    def capture(self) -> np.ndarray:
        """Fresh `[S]` uint8 row; S grows with a state that outgrows it."""
        while True:
            row = np.zeros((1, self._envelope.width), np.uint8)
            try:
                end = self._codec.capture(row[0].data, HEADER)
            except StateTooWide as error:
                self._widen((self._envelope.width + error.excess) * 3 // 2)
                continue
            self._envelope.seal(row, end - HEADER)
            return row[0]

    def restore(self, state: np.ndarray, where: str) -> None:
        """Bring the env to a state.

        Raises:
            StateError: it is damaged or belongs to another env.
        """
        row = self._envelope.check(np.asarray(state)[None], where)[0]
        if len(row) > self._envelope.width:
            self._widen(len(row))
        # Owned: what is restored may keep views of it.
        self._codec.restore(row.copy().data, HEADER)


def _wrappers_state(
    env: gym.Env[Any, Any],
) -> list[tuple[LayerAttributes, dict[str, Any]]]:
    """What each wrapper remembers, as far as it can be copied."""
    found = []
    for layer in layers(env)[:-1]:
        attributes = LayerAttributes(layer, ())
        with contextlib.suppress(Exception):  # whatever an attribute's own copying raises
            found.append((attributes, copy.deepcopy(attributes.state())))
    return found


def state_method(env: gym.Env[Any, Any], state: str, *, check: bool, trusted: bool) -> str:
    """The way to capture the state of envs like this one, which is reset and moved.

    Args:
        env: an instance that nobody plays.
        state: as for `GymEnv`.
        check: as for `GymEnv`.
        trusted: as `trust` for `GymEnv`.

    Raises:
        IncompleteState: there is none.
    """
    env.reset(seed=0)
    _, codec = choose_codec(env, state, check=check, trusted=trusted)
    return codec.method

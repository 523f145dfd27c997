"""States of one env: captured where it stands, restored where it stands.

The only way in which states are captured: of the env that batches run on (`GymEnv`), and of
every sub-env of a vector env. What the env and its wrappers refer to is never copied.
"""

from __future__ import annotations

import contextlib
from typing import Any

import gymnasium as gym
import numpy as np

from plangym_ext.states.codec import StateCodec, layers
from plangym_ext.states.envelope import HEADER, Envelope
from plangym_ext.states.part import StateTooWide


class LiveState:
    """Reads and sets the state of one env.

    Args:
        env: with the recorder in its stack that the codec may need.
        codec: bound to the env.
        name: of an env that has no spec; the name of its class if empty.

    Attributes:
        codec: as given.
        envelope: of the rows; replaced when they are widened.
    """

    def __init__(self, env: gym.Env[Any, Any], codec: StateCodec, name: str = "") -> None:
        self._env, self.codec = env, codec
        self._name = name or type(env.unwrapped).__name__
        self._seal_anew()

    def identify(self) -> None:
        """Look at what states belong to once more: an attribute of the env was set."""
        self.codec.fixed.rebase()
        self._seal_anew()

    def _seal_anew(self) -> None:
        identity = state_identity(self._env, self.codec, self._name)
        self.envelope = Envelope(identity, self.codec.width)
        self.widen(self.envelope.width)

    def widen(self, width: int) -> None:
        """Make room for rows of `width` bytes."""
        self.envelope = Envelope(self.envelope.identity, width - HEADER)
        # Rounded up, so that the codec clears the padding too: memory is used again.
        self.codec.width = self.envelope.width - HEADER

    def wider(self, excess: int) -> int:
        """Return the row width for states that need `excess` bytes more, with room to grow."""
        return (self.envelope.width + excess) * 3 // 2

    def capture(self) -> np.ndarray:
        """Return fresh `[S]` uint8 row; S grows with a state that outgrows it.

        Raises:
            IncompleteState: the state cannot be captured exactly.
        """
        self.codec.fixed.check()
        while True:
            row = np.zeros((1, self.envelope.width), np.uint8)
            try:
                end = self.codec.capture(row[0].data, HEADER)
            except StateTooWide as error:
                self.widen(self.wider(error.excess))
                continue
            self.envelope.seal(row, end - HEADER)
            return row[0]

    def restore(self, state: np.ndarray, where: str) -> None:
        """Bring the env to a state.

        Args:
            state: `[S]` uint8; it may be used again after the call.
            where: method name, for messages.

        Raises:
            StateError: it is damaged or belongs to another env.
        """
        row = self.envelope.check(np.asarray(state)[None], where)[0]
        if len(row) > self.envelope.width:
            self.widen(len(row))
        self.bring(row)

    def bring(self, row: np.ndarray, *, is_reset: bool = True) -> None:
        """Bring the env to a state that was checked, or leave it where it is if that is refused.

        Args:
            row: `[S]` uint8.
            is_reset: whether the env is anywhere.
        """
        here: np.ndarray | None = None
        if is_reset and self.codec.may_refuse:
            # Where it is may be no place for a capture, as after an edit: then it goes nowhere.
            with contextlib.suppress(Exception):
                here = self.capture()
        try:
            # Owned: what is restored may keep views of it.
            self.codec.restore(row.copy().data, HEADER)
            self.codec.fixed.put_back()
        except Exception:
            if here is not None:
                self.codec.restore(here.data, HEADER)
            raise


def state_identity(env: gym.Env[Any, Any], codec: StateCodec, name: str) -> dict[str, Any]:
    """Return what the states of an env belong to, for their fingerprint.

    Args:
        env: of which the codec is.
        codec: how they are captured.
        name: of an env that has no spec.
    """
    spec = env.spec
    arguments = dict(spec.kwargs) if spec else {}
    arguments.pop("render_mode", None)  # drawing does not change the dynamics
    return {
        "id": spec.id if spec else name,
        "arguments": arguments,
        "layers": [type(layer).__qualname__ for layer in layers(env)],
        "parts": codec.identity(),
    }

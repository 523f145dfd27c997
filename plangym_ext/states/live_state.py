"""LiveState: capture and restore of the state of one live env.

The only way in which states are captured: of the env that batches run on (`GymEnv`), and of
every sub-env of a vector env. What the env and its wrappers refer to is never copied.

A codec is bound to an env that has been reset: it looks at what is there. The env is its
user's, and is not reset to look at it. So the codec is bound at the first capture or restore, with
the method that was proved on a copy (`trials.choice`).
"""

from __future__ import annotations

import contextlib
from typing import Any

import gymnasium as gym
import numpy as np

from plangym_ext.states.codec import StateCodec, layers, with_recorder
from plangym_ext.states.content_hash import enclosed_by_constructor
from plangym_ext.states.envelope import HEADER, OF_TEXTS, Envelope
from plangym_ext.states.fixed_fields import plain_fields
from plangym_ext.states.layer_attributes import Binding
from plangym_ext.states.part import StateTooWide
from plangym_ext.states.trials.trial import prepare

#: Ways whose states hold all attributes, or refuse those of other ones by themselves.
_WHOLE = ("snapshot", "simulator")


class LiveState:
    """Reads and sets the state of one env.

    Args:
        env: as its constructor made it.
        binding: of an equal env.
        name: of an env that has no spec; the name of its class if empty.
        trusted: open pickles that another session made.

    Attributes:
        env: to be played: `env`, perhaps with a recorder in its stack.
        binding: as given.
        envelope: of the rows; replaced when they are widened.
    """

    def __init__(
        self, env: gym.Env[Any, Any], binding: Binding, name: str = "", *, trusted: bool = False
    ) -> None:
        prepare(env, binding.method)
        # Before its user resets it: the fields that differ later are those that a reset touches.
        self._before = plain_fields(layers(env)[-1])
        self.env = with_recorder(env, binding.method)
        self.binding, self._trusted = binding, trusted
        self._name = name or type(env.unwrapped).__name__
        self._codec: StateCodec | None = None
        self._was_set = False
        self._seal(binding.parts, binding.width)

    @property
    def codec(self) -> StateCodec:
        """The codec, bound to the env on first use; the env must have been reset."""
        if self._codec is None:
            codec = StateCodec(self.env, self.binding.method, trusted=self._trusted)
            codec.adopt(self.binding.learned, self._before)
            # Whatever this instance holds by now: rows of all equal envs are equally wide.
            codec.width = self.envelope.width - HEADER
            self._codec = codec
            if self._was_set:
                self.identify()
        return self._codec

    def identify(self) -> None:
        """Look at what states belong to once more: an attribute of the env was set."""
        self._was_set = True
        if self._codec is not None:
            self._codec.fixed.rebase()
            self._seal(self._codec.identity(), self._codec.width)

    def _seal(self, parts: dict[str, Any], width: int) -> None:
        identity = state_identity(self.env, self.binding, parts, self._name)
        self.envelope = Envelope(identity, width, self.binding.method)
        self.widen(self.envelope.width)

    def widen(self, width: int) -> None:
        """Make room for rows of `width` bytes."""
        self.envelope = self.envelope.widened(width - HEADER)
        if self._codec is not None:
            # Rounded up, so that the codec clears the padding too: memory is used again.
            self._codec.width = self.envelope.width - HEADER

    def wider(self, excess: int) -> int:
        """Return the row width for states that need `excess` bytes more, with room to grow."""
        return (self.envelope.width + excess) * 3 // 2

    def capture(self) -> np.ndarray:
        """Return fresh `[S]` uint8 row; S grows with a state that outgrows it.

        Raises:
            IncompleteState: the state cannot be captured exactly.
        """
        codec = self.codec
        codec.fixed.check()
        while True:
            row = np.zeros((1, self.envelope.width), np.uint8)
            try:
                end = codec.capture(row[0].data, HEADER)
            except StateTooWide as error:
                self.widen(self.wider(error.excess))
                continue
            self.envelope.seal(row, end - HEADER)
            return row[0]

    def restore(self, state: np.ndarray, where: str) -> None:
        """Set the env, which must have been reset, to a state.

        Args:
            state: `[S]` uint8; it may be used again after the call.
            where: method name, for messages.

        Raises:
            StateError: it is damaged or belongs to another env.
        """
        assert self.codec is not None  # bound: attributes that were set decide what fits
        row = self.envelope.check(np.asarray(state)[None], where)[0]
        if len(row) > self.envelope.width:
            self.widen(len(row))
        self.bring(row)

    def bring(self, row: np.ndarray, *, is_reset: bool = True) -> None:
        """Set the env to a checked state, or leave it unchanged if that is refused.

        Args:
            row: `[S]` uint8.
            is_reset: whether the env is anywhere.
        """
        here: np.ndarray | None = None
        codec = self.codec
        if is_reset and codec.may_refuse:
            # Where it is may be no place for a capture, as after an edit: then it goes nowhere.
            with contextlib.suppress(Exception):
                here = self.capture()
        try:
            # Owned: what is restored may keep views of it.
            codec.restore(row.copy().data, HEADER)
            codec.fixed.put_back()
        except Exception:
            if here is not None:
                codec.restore(here.data, HEADER)
            raise


def state_identity(
    env: gym.Env[Any, Any], binding: Binding, parts: dict[str, Any], name: str
) -> dict[str, Any]:
    """Return the identity of an env's states, for their fingerprint.

    Args:
        env: whose states.
        binding: how the simulator's state is captured.
        parts: what the states of each part depend on.
        name: of an env that has no spec.
    """
    spec = env.spec
    arguments = dict(spec.kwargs) if spec else {}
    arguments.pop("render_mode", None)  # drawing does not change the dynamics
    # Another in each session, unless PYTHONHASHSEED is set.
    texts = {OF_TEXTS: hash(__name__)} if binding.of_texts else {}
    return texts | {
        "id": spec.id if spec else name,
        "arguments": arguments,
        "layers": [type(layer).__qualname__ for layer in layers(env)],
        "parts": parts,
        # A state that holds all attributes brings along what they were made of.
        "enclosed": [] if binding.method in _WHOLE else enclosed_by_constructor(env),
    }

"""State codecs of gymnasium's wrappers: TimeLimit, frame stack, AtariPreprocessing.

A wrapper of the library or the user's own may bring its codec along: a method
`state_part()` that returns a `StatePart`. Other wrappers are captured as a snapshot of
their attributes.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import wrappers

from plangym_ext.errors import DamagedState, IncompleteState
from plangym_ext.states import plain
from plangym_ext.states.part import StatePart, get_block, put_block

#: Steps that an episode may have had: those after it can be counted too.
MOST_STEPS = 1 << 62

#: Wrappers that hold nothing a step of a reset env reads. OrderEnforcing only knows
#: that reset was called, the checker only what it has already checked; the others
#: are functions of their input.
STATELESS = (
    # Looked up by `type`: a subclass may well hold something.
    wrappers.OrderEnforcing,
    wrappers.PassiveEnvChecker,
    wrappers.ClipAction,
    wrappers.ClipReward,
    wrappers.DtypeObservation,
    wrappers.FilterObservation,
    wrappers.FlattenObservation,
    wrappers.GrayscaleObservation,
    wrappers.RescaleAction,
    wrappers.RescaleObservation,
    wrappers.ReshapeObservation,
    wrappers.ResizeObservation,
)


class TimeLimitPart(StatePart):
    """`TimeLimit`: the number of steps taken since the reset."""

    _layout = struct.Struct("<q")
    width = _layout.size

    def __init__(self, layer: Any) -> None:
        self._layer = layer

    def capture(self, buffer: memoryview, offset: int, end: int) -> int:
        self._layout.pack_into(buffer, offset, self._layer._elapsed_steps)
        return offset + self.width

    def restore(self, buffer: memoryview, offset: int) -> int:
        (steps,) = self._layout.unpack_from(buffer, offset)
        if not 0 <= steps <= MOST_STEPS:
            raise DamagedState(f"state: an episode has at most {MOST_STEPS} steps; got {steps}.")
        self._layer._elapsed_steps = steps
        return offset + self.width

    def identity(self) -> dict[str, Any]:
        """Return the limit, which decides which step truncates."""
        return {"max_episode_steps": self._layer._max_episode_steps}


class FrameStackPart(StatePart):
    """`FrameStackObservation` over one array: the queue of frames.

    The stacked array is filled anew by every step, and the padding by every reset.
    """

    def __init__(self, layer: Any) -> None:
        self._layer = layer
        space = layer.env.observation_space
        self._shape = (layer.stack_size, *space.shape)
        self._dtype = space.dtype
        self.width = int(np.prod(self._shape)) * self._dtype.itemsize

    def capture(self, buffer: memoryview, offset: int, end: int) -> int:
        """Write the frames, oldest first."""
        stop = offset + self.width
        np.stack(
            self._layer.obs_queue,
            out=np.frombuffer(buffer[offset:stop], self._dtype).reshape(self._shape),
        )
        return stop

    def restore(self, buffer: memoryview, offset: int) -> int:
        """Set the queue to copies of the frames."""
        stop = offset + self.width
        # [stack, *obs]; copied, for the queue outlives the row.
        frames = np.frombuffer(buffer[offset:stop], self._dtype).reshape(self._shape).copy()
        self._layer.obs_queue = deque(frames, maxlen=len(frames))
        return stop

    def identity(self) -> dict[str, Any]:
        """Return the number of frames, and the padding of a reset."""
        return {"size": self._layer.stack_size, "padding": self._layer.padding_type}

    @staticmethod
    def applies(layer: Any) -> bool:
        """Return whether the wrapper stacks single arrays."""
        return isinstance(layer.env.observation_space, gym.spaces.Box)


class AtariPreprocessingPart(StatePart):
    """`AtariPreprocessing`: lives, and the brighter of the last two frames.

    A step that ends early shows the frames of the step before. Of the wrapper's two
    buffers the first is then at least as bright as the second in every pixel, so the
    second one adds nothing.
    """

    _layout = struct.Struct("<q?")

    def __init__(self, layer: Any) -> None:
        self._layer = layer
        self.width = self._layout.size + layer.obs_buffer[0].nbytes

    def capture(self, buffer: memoryview, offset: int, end: int) -> int:
        """Write both numbers and the first buffer."""
        layer = self._layer
        self._layout.pack_into(buffer, offset, layer.lives, layer.game_over)
        stop = offset + self.width
        buffer[offset + self._layout.size : stop] = layer.obs_buffer[0].data.cast("B")
        return stop

    def restore(self, buffer: memoryview, offset: int) -> int:
        """Set both numbers and the first buffer; the second one is black."""
        layer = self._layer
        layer.lives, layer.game_over = self._layout.unpack_from(buffer, offset)
        stop = offset + self.width
        # In place: the wrapper's pooling writes to these two arrays.
        layer.obs_buffer[0].data.cast("B")[:] = buffer[offset + self._layout.size : stop]
        layer.obs_buffer[1].fill(0)
        return stop

    def identity(self) -> dict[str, Any]:
        """Return the wrapper's arguments."""
        return dict(self._layer._saved_kwargs)


def wrapper_part(layer: gym.Wrapper[Any, Any, Any, Any]) -> StatePart | None:
    """Return the codec of a wrapper, or None if there is none."""
    # First, so that a subclass of one of gymnasium's wrappers can replace the codec below.
    own = getattr(layer, "state_part", None)
    if own is not None:
        return own()
    # The very classes: a subclass may keep more, and becomes a snapshot.
    if type(layer) is wrappers.TimeLimit:
        return TimeLimitPart(layer)
    if type(layer) is wrappers.FrameStackObservation and FrameStackPart.applies(layer):
        return FrameStackPart(layer)
    if type(layer) is wrappers.AtariPreprocessing:
        return AtariPreprocessingPart(layer)
    return None


# OwnStatePart: state through the env's own `get_state` and `set_state` --------


_PAIRS = (("get_state", "set_state"), ("clone_state", "restore_state"))


def offers_state(layer: Any) -> tuple[str, str] | None:
    """Return the names of the pair of methods by which the layer's class offers its state."""
    for get, put in _PAIRS:
        if callable(getattr(type(layer), get, None)) and callable(getattr(type(layer), put, None)):
            return get, put
    return None


class OwnStatePart(StatePart):
    """State through `get_state`, for plain data; it covers all inner layers.

    Raises:
        IncompleteState: the state holds something that is not plain data.
    """

    method = "own"
    may_refuse = True

    def __init__(self, layer: Any) -> None:
        names = offers_state(layer)
        assert names is not None
        self._name = f"{type(layer).__qualname__}.{names[0]}"
        self._get: Callable[[], Any] = getattr(layer, names[0])
        self._set: Callable[[Any], Any] = getattr(layer, names[1])
        state = self._get()
        # A row of bytes, as the library's own envs have it, needs no description.
        self._is_row = isinstance(state, np.ndarray) and state.dtype == np.uint8 and state.ndim == 1
        self._size = len(state) if self._is_row else 0
        # Twice what it takes now, as other states may be longer; a row of bytes stays as long.
        self.width = self._size if self._is_row else 2 * len(self._encoded()) + 64

    def _encoded(self) -> bytes:
        try:
            return plain.encode(self._get(), f"{self._name}()")
        except plain.NotPlain as error:
            raise IncompleteState(
                f"{error}: expected plain data (numbers, text, arrays and containers of them). "
                "Return the state's fields instead of objects."
            ) from error

    def capture(self, buffer: memoryview, offset: int, end: int) -> int:
        if not self._is_row:
            return put_block(buffer, offset, end, self._encoded())
        state = self._get()
        if state.shape != (self._size,):
            raise IncompleteState(
                f"{self._name}(): expected ({self._size},) uint8 as at first; got {state.shape}"
            )
        buffer[offset : offset + self._size] = state.data
        return offset + self._size

    def restore(self, buffer: memoryview, offset: int) -> int:
        if self._is_row:
            stop = offset + self._size
            self._set(np.frombuffer(buffer[offset:stop], np.uint8).copy())
            return stop
        data, stop = get_block(buffer, offset)
        self._set(plain.decode(data))
        return stop

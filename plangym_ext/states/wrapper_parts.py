"""State codecs of gymnasium's wrappers: TimeLimit, frame stack, AtariPreprocessing.

A wrapper of the library or the user's own may bring its codec along: a method
`state_part()` that returns a `StatePart`. Other wrappers are captured as a snapshot of
their attributes.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import wrappers

from plangym_ext.errors import DamagedState
from plangym_ext.states.part import StatePart

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
        """Write the elapsed steps."""
        self._layout.pack_into(buffer, offset, self._layer._elapsed_steps)
        return offset + self.width

    def restore(self, buffer: memoryview, offset: int) -> int:
        """Set the elapsed steps."""
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

"""How the state of one env instance becomes bytes, layer by layer.

An env is a stack: wrappers around a simulator. Each layer that the next step reads
from has a `StatePart`; a `StateCodec` runs the parts one after another. Parts are
bound to their live layer once, so a capture is a few `pack_into` calls.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from typing import Any

import gymnasium as gym
from gymnasium import wrappers

from plangym_ext.core.families import family_of
from plangym_ext.errors import IncompleteState


class StatePart(ABC):
    """One layer's share of a state.

    Attributes:
        width: most bytes that `capture` may write.
        method: one word for reports: how the layer is captured.
    """

    width: int
    method: str = "codec"

    @abstractmethod
    def capture(self, buffer: memoryview, offset: int) -> int:
        """Write the layer's state to `buffer[offset:]`; return the offset behind it."""

    @abstractmethod
    def restore(self, buffer: memoryview, offset: int) -> int:
        """Read what `capture` wrote at `offset`; return the offset behind it."""

    def identity(self) -> dict[str, Any]:
        """What, beside the env's id and arguments, a state of this layer depends on."""
        return {}


class TimeLimitPart(StatePart):
    """`TimeLimit`: the number of steps taken since the reset."""

    _layout = struct.Struct("<q")
    width = _layout.size

    def __init__(self, layer: Any) -> None:
        self._layer = layer

    def capture(self, buffer: memoryview, offset: int) -> int:
        """Write the elapsed steps."""
        self._layout.pack_into(buffer, offset, self._layer._elapsed_steps)
        return offset + self.width

    def restore(self, buffer: memoryview, offset: int) -> int:
        """Set the elapsed steps."""
        (self._layer._elapsed_steps,) = self._layout.unpack_from(buffer, offset)
        return offset + self.width

    def identity(self) -> dict[str, Any]:
        """The limit decides which step truncates."""
        return {"max_episode_steps": self._layer._max_episode_steps}


# Layers that hold nothing a step of a reset env reads: OrderEnforcing only knows
# that reset was called, the checker only what it has already checked.
_STATELESS_WRAPPERS = (wrappers.OrderEnforcing, wrappers.PassiveEnvChecker)


def _wrapper_part(layer: gym.Wrapper[Any, Any, Any, Any]) -> StatePart | None:
    if type(layer) in _STATELESS_WRAPPERS:
        return None
    if type(layer) is wrappers.TimeLimit:
        return TimeLimitPart(layer)
    raise IncompleteState(
        f"{type(layer).__name__} (wrapper of {layer.unwrapped}): its state cannot be captured yet. "
        "Leave it out of the env that is planned on, or wrap it around the batched env."
    )


def _base_part(base: gym.Env[Any, Any]) -> StatePart:
    family = family_of(base)
    if family is None:
        raise IncompleteState(
            f"{type(base).__module__}.{type(base).__qualname__}: no codec is registered for this "
            "env. Register one with plangym_ext.core.families.register_family."
        )
    part = family.load_codec()(base)
    if not isinstance(part, StatePart):
        raise TypeError(f"family {family.name}: its codec must return a StatePart; got {part!r}")
    return part


def layers(env: gym.Env[Any, Any]) -> list[gym.Env[Any, Any]]:
    """Every layer of `env`, outermost first, the simulator last."""
    found = [env]
    while isinstance(found[-1], gym.Wrapper):
        found.append(found[-1].env)
    return found


class StateCodec:
    """Captures and restores the complete state of one env instance.

    Args:
        env: a gymnasium env that has been reset at least once.

    Raises:
        IncompleteState: a layer's state cannot be captured exactly.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        *outer, base = layers(env)
        found = [_wrapper_part(layer) for layer in outer if isinstance(layer, gym.Wrapper)]
        found.append(_base_part(base))
        self.parts = tuple(part for part in found if part is not None)
        self._layer_names = tuple(
            type(layer).__qualname__
            for layer, part in zip((*outer, base), found, strict=True)
            if part is not None
        )
        self.width = sum(part.width for part in self.parts)

    def capture(self, buffer: memoryview, offset: int) -> int:
        """Write the state to `buffer[offset:]`.

        Args:
            buffer: writable bytes with at least `width` of them behind `offset`.
            offset: where to start.

        Returns:
            Offset behind the last byte written, at most `offset + width`.
        """
        for part in self.parts:
            offset = part.capture(buffer, offset)
        return offset

    def restore(self, buffer: memoryview, offset: int) -> None:
        """Bring the env to the state that `capture` wrote at `offset`."""
        for part in self.parts:
            offset = part.restore(buffer, offset)

    def described(self) -> list[tuple[StatePart, str]]:
        """Each part with the name of its layer, for reports."""
        return list(zip(self.parts, self._layer_names, strict=True))

    def identity(self) -> dict[str, Any]:
        """What the parts' states depend on, for the envelope's fingerprint."""
        return {type(part).__name__: part.identity() for part in self.parts}

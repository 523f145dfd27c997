"""StateCodec: conversion between one env's state and bytes, layer by layer.

An env is a stack: wrappers around a simulator. The simulator's state is captured by
the first way that applies and passes the round trip:

    codec     the library knows the simulator (`plangym_ext.envs`, `register_family`);
              what a class derived from it adds is captured beside it, as plain data
    own       a layer has get_state and set_state; they cover all layers below
    simulator what the env refers to is set in place, with the simulators among it that
              are known wherever they are held
    snapshot  the attributes, as plain data or else as a pickle
    replay    the reset and the actions since

Wrappers above have codecs of their own or are captured as snapshots.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium as gym

from plangym_ext.errors import DamagedState, IncompleteState, PlangymExtError, WrongKind, text_of
from plangym_ext.states import plain
from plangym_ext.states.constants import Made
from plangym_ext.states.envelope import WAYS
from plangym_ext.states.families import family_of, is_own_class
from plangym_ext.states.fixed_fields import ExtraFieldsPart, FixedFields
from plangym_ext.states.in_place.part import InPlacePart, holds_simulator
from plangym_ext.states.part import StatePart, get_block, put_block
from plangym_ext.states.replay import Recorder, ReplayPart, ResetRecorder
from plangym_ext.states.snapshot import SnapshotPart
from plangym_ext.states.wrapper_parts import STATELESS, OwnStatePart, offers_state, wrapper_part

#: The ways, in the order in which they are tried.
METHODS = WAYS[1:-1]
#: Steps that a replayed episode without a time limit is expected to last.
_USUAL_DEPTH = 1000
#: Steps that rows have room for at first, however long an episode may last; they are widened.
_MOST_DEPTH = 10_000


def layers(env: gym.Env[Any, Any]) -> list[gym.Env[Any, Any]]:
    """Return every layer of `env`, outermost first, the simulator last."""
    found = [env]
    while isinstance(found[-1], gym.Wrapper):
        found.append(found[-1].env)
    return found


class StateCodec:
    """Captures and restores the complete state of one env instance.

    Args:
        env: a gymnasium env that has been reset at least once.
        method: one of `METHODS` for the simulator, or "approximate" for a family's
            inexact way.
        trusted: open pickles that another session made.

    Raises:
        IncompleteState: the method does not apply to this env.

    Attributes:
        width: bytes of a payload; grows if a state outgrows it.
        exact: as of `StatePart`, for all layers together.
        fixed: numbers of the simulator that states do not hold.
    """

    def __init__(self, env: gym.Env[Any, Any], method: str, *, trusted: bool = False) -> None:
        stack = layers(env)
        base_part, covered = _base_part(stack, method)
        found: list[tuple[StatePart, str]] = []
        unknown = []
        # Outermost first, the simulator last: parts are restored in this order, too.
        for layer in stack[:covered]:
            if type(layer) in STATELESS or isinstance(layer, ResetRecorder):
                continue
            part = wrapper_part(layer)  # type: ignore[arg-type]
            if part is None:
                unknown.append(layer)
            else:
                found.append((part, type(layer).__qualname__))
        if base_part is None:
            unknown.append(stack[-1])
        else:
            found.append((base_part, type(stack[covered]).__qualname__))
            if method in ("codec", "approximate") and not is_own_class(stack[-1]):
                extra = ExtraFieldsPart(stack[-1], base_part)
                found.append((extra, type(stack[-1]).__qualname__))
        if unknown:
            names = ", ".join(type(layer).__qualname__ for layer in unknown)
            if base_part is not None and method != "replay":  # which resets by the seed itself
                found.append((ResetSeedPart(stack[-1]), type(stack[-1]).__qualname__))
            # One for all of them, so that objects shared by two layers stay shared.
            way = InPlacePart if method == "simulator" else SnapshotPart
            found.append((way(unknown, stack, trusted=trusted), names))
        fixes = base_part is not None and base_part.fixes_fields and is_own_class(stack[-1])
        self.fixed = FixedFields(stack[-1], base_part if fixes else None)
        #: Looked at in every row: a wrapper of the user's may change them in any step.
        self._watched = self.fixed if fixes and unknown else None
        self._found = found
        self.parts = tuple(part for part, _ in found)
        self.method = method
        self.width = sum(part.width for part in self.parts)
        self.exact = all(part.exact for part in self.parts)

    def leave_out(self, made: Made) -> None:
        """Leave out of snapshots data of the constructor that no reset or step changes."""
        for part in self.parts:
            if isinstance(part, SnapshotPart):
                part.leave_out(made)
        self.width = sum(part.width for part in self.parts)

    @property
    def canonical(self) -> bool:
        """As of `StatePart`, for all layers together."""
        return all(part.canonical for part in self.parts)

    @property
    def incomparable(self) -> str:
        """Reason why equal states may differ in their bytes; "" if they do not."""
        for part, name in self._found:
            if not part.canonical:
                why = getattr(part, "pickled_for", "") or f"the state of {name} is no plain data"
                return f"{why}, and equal states may differ in their bytes"
        return ""

    def capture(self, buffer: memoryview, offset: int) -> int:
        """Write the state to `buffer[offset : offset + width]`.

        Returns:
            Offset after the last byte written; what follows it stays as it is.

        Raises:
            IncompleteState: what states do not hold was changed.
            StateTooWide: the state needs more than `width` bytes.
        """
        if self._watched is not None:
            self._watched.check()
        end = offset + self.width
        # Each begins where the one before it has ended: widths may differ from state to state.
        for part in self.parts:
            offset = part.capture(buffer, offset, end)
        return offset

    def restore(self, buffer: memoryview, offset: int) -> None:
        """Set the env to the state that `capture` wrote at `offset`.

        Raises:
            StateError: a part cannot be what the bytes say.
        """
        for part, name in self._found:
            try:
                offset = part.restore(buffer, offset)
            # Whatever a simulator's own code raises for bytes that no capture wrote; where an
            # episode is played again, what a step raises is the env's own.
            except Exception as error:
                if type(error) is not DamagedState and (
                    part.method == "replay" or isinstance(error, PlangymExtError)
                ):
                    raise
                raise DamagedState(
                    f"state: {name} cannot be in it: {text_of(error)}. Pass a row from get_state "
                    "of this env, as it was captured."
                ) from error
        if self._watched is not None:
            self._watched.put_back()

    @property
    def may_refuse(self) -> bool:
        """Whether a part may refuse a state that is whole, when others are set."""
        return any(part.may_refuse for part in self.parts)

    def learned(self, before: Mapping[str, bytes]) -> tuple[Any, ...]:
        """Return each part's learned data, see `StatePart.learned`, and the fixed fields."""
        return (*(part.learned(before) for part in self.parts), self.fixed.first)

    def adopt(self, learned: tuple[Any, ...], before: Mapping[str, bytes]) -> None:
        """Write states as an equal env's codec does; see `StatePart.adopt`.

        Raises:
            IncompleteState: the other env is not equal: it has other parts.
        """
        *of_parts, fixed = learned
        if len(of_parts) != len(self.parts):
            names = ", ".join(name for _, name in self._found)
            raise IncompleteState(
                f"state: expected {len(of_parts)} parts, as in another env of this constructor; "
                f"got {len(self.parts)} ({names}). Let the constructor make equal envs."
            )
        for part, what in zip(self.parts, of_parts, strict=True):
            part.adopt(what, before)
        self.fixed.adopt(fixed)

    def described(self) -> list[tuple[StatePart, str]]:
        """Return each part with the name of its layer, for reports."""
        return list(self._found)

    def identity(self) -> dict[str, Any]:
        """Return the parts' identities, for the envelope's fingerprint."""
        return {
            f"{name}: {type(part).__name__} {part.method}": part.identity()
            for part, name in self._found
        }


def candidate_methods(env: gym.Env[Any, Any]) -> Iterator[str]:
    """Yield methods worth trying on an env, in order."""
    stack = layers(env)
    family = family_of(stack[-1])
    if family is not None and family.codec is not None:
        yield "codec"
    if any(offers_state(layer) for layer in stack):
        yield "own"
    if holds_simulator(stack[-1]):
        yield "simulator"
    if family is None or family.playback is None:
        yield "snapshot"
    yield "replay"


def with_recorder(env: gym.Env[Any, Any], method: str) -> gym.Env[Any, Any]:
    """Return the env with the recorder that a method needs, directly around the simulator.

    A new recorder knows nothing yet: reset the env then.
    """
    stack = layers(env)
    family = family_of(stack[-1])
    playback = family.load("playback") if family is not None else None
    if method == "replay":
        kind: type[ResetRecorder] = Recorder
    elif method == "approximate" and playback is not None:
        kind = ResetRecorder
    else:
        return env
    # Not `isinstance`: a Recorder is a ResetRecorder, too.
    if any(type(layer) is kind for layer in stack):
        return env
    # Right on the simulator: wrappers above may change actions, and are captured themselves.
    recorder = kind(stack[-1], playback(stack[-1]) if playback is not None else None)
    if len(stack) == 1:
        return recorder
    above = stack[-2]
    assert isinstance(above, gym.Wrapper)
    above.env = recorder
    return env


def _base_part(stack: list[gym.Env[Any, Any]], method: str) -> tuple[StatePart | None, int]:
    """Return the part of the simulator, or None to snapshot it, and how many layers lie above."""
    base = stack[-1]
    if method in ("codec", "approximate"):
        family = family_of(base)
        if family is None:
            raise IncompleteState(f"{type(base).__qualname__}: no family is registered for it")
        approximate = method == "approximate"
        # The ResetRecorder, which `with_recorder` has put right on the simulator.
        subject = stack[-2] if approximate and family.playback is not None else base
        part = family.load_codec(approximate=approximate)(subject)
        if not isinstance(part, StatePart):
            raise WrongKind(f"family {family.name}: its codec must return a StatePart; got {part}")
        return part, len(stack) - 1
    if method == "own":
        for depth, layer in enumerate(stack):
            if offers_state(layer):
                return OwnStatePart(layer), depth
        raise IncompleteState(f"{type(base).__qualname__}: no layer has get_state and set_state")
    if method in ("simulator", "snapshot"):
        return None, len(stack) - 1
    recorder = next((layer for layer in stack if isinstance(layer, Recorder)), None)
    if method == "replay" and recorder is not None:
        limit = next(
            (layer._max_episode_steps for layer in stack if isinstance(layer, _TimeLimit)), None
        )
        return ReplayPart(recorder, min(limit or _USUAL_DEPTH, _MOST_DEPTH)), len(stack) - 1
    raise IncompleteState(f"state: expected one of {', '.join(METHODS)}; got {method!r}")


_TimeLimit = gym.wrappers.TimeLimit


# ResetSeedPart ----------------------------------------------------------------
# An env whose simulator has a codec has no use for it, but a wrapper of the user's own may read it.


_NAME = "_np_random_seed"


class ResetSeedPart(StatePart):
    """Captures the seed of an env as its simulator holds it."""

    method = "seed"

    def __init__(self, simulator: gym.Env[Any, Any]) -> None:
        self._simulator = simulator
        self.width = 64

    def capture(self, buffer: memoryview, offset: int, end: int) -> int:
        seed = getattr(self._simulator, _NAME, None)
        return put_block(buffer, offset, end, plain.encode(seed, _NAME))

    def restore(self, buffer: memoryview, offset: int) -> int:
        """Set the seed.

        Raises:
            DamagedState: it is no seed.
        """
        data, offset = get_block(buffer, offset)
        seed = plain.decode(data)
        if seed is not None and type(seed) is not int:
            raise DamagedState(f"state: a seed is an int or None; got {seed!r:.40}")
        # Not through `np_random`, which would forget the seed.
        setattr(self._simulator, _NAME, seed)
        return offset

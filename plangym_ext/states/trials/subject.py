"""Subject: an env under trial, with its observations and results as bytes."""

from __future__ import annotations

import _random
import copy
import hashlib
import random
import time
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from plangym_ext.arrays.nested import content, reward_of
from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.errors import IncompleteState, WrongKind
from plangym_ext.states.codec import StateCodec, layers
from plangym_ext.states.layer_attributes import LayerAttributes
from plangym_ext.states.outside import module_of
from plangym_ext.states.part import StateTooWide
from plangym_ext.states.randomness.random_bytes import RANDOM_TYPES, random_bytes
from plangym_ext.states.trials.digests import Marking, Marks
from plangym_ext.states.trials.fork import Line
from plangym_ext.states.trials.sampling import checked_reset
from plangym_ext.states.trials.surroundings import (
    all_layers,
    generators,
    is_by_address,
    named_as_drawing_marks,
    sets_in,
    surroundings,
)

_GENERATORS = (*RANDOM_TYPES, random.Random)
#: What Python says where four values of a step are unpacked as five.
FOUR_VALUES = "not enough values to unpack (expected 5, got 4)"
#: Values of more bytes are kept as digests.
_KEPT_BYTES = 64
#: Field that holds the states of generators, and one that holds that of the whole env.
RANDOM, NEXT = "a generator", "next state"
#: What begins the names of what a process has once.
OF_PROCESS = ("the generator of", "what ")

Fields = dict[str, Any]


def wrong_step(env: gym.Env[Any, Any], num_values: int) -> str:
    """Return the message for an env whose step does not return five values."""
    return (
        f"{type(env.unwrapped).__qualname__}: step must return (observation, reward, "
        f"terminated, truncated, info); got {num_values} values. An env of the old Gym "
        "returns `done` for the two endings: return `done, False` instead."
    )


class Subject:
    """An env instance under check, with the codec bound to it."""

    def __init__(self, env: gym.Env[Any, Any], codec: StateCodec) -> None:
        self.env, self.codec = env, codec
        self._layers = all_layers(env)
        #: Seconds of every step that was played, by the clock; and of captures and restores, of the
        #: processor: ways are compared by these, whatever else the machine does.
        self.step_seconds: list[float] = []
        self.capture_seconds: list[float] = []
        self.restore_seconds: list[float] = []
        #: Of the last step, or of the reset that followed it.
        self.info: dict[str, Any] = {}
        self._layout = SpaceLayout(env.observation_space, objects=True)

    def save(self) -> bytes:
        """Return the state as the codec writes it."""
        started = time.process_time()
        while True:
            row = bytearray(self.codec.width)
            try:
                # Without the padding: rows of two instances may be of different widths.
                found = bytes(row[: self.codec.capture(memoryview(row), 0)])
            except StateTooWide as error:
                self.codec.width += error.excess
                continue
            self.capture_seconds.append(time.process_time() - started)
            return found

    def restore(self, state: bytes) -> None:
        """Restore a saved state."""
        started = time.process_time()
        self.codec.restore(memoryview(bytearray(state)), 0)
        self.restore_seconds.append(time.process_time() - started)

    def replayed(self, state: bytes, actions: Sequence[Any]) -> Iterator[Fields]:
        """Restore a state and yield the fields of every action that follows; None is a reset.

        Before them comes where the generator is after the restore, and after them the state that
        they have led to, if equal states are equal bytes.
        """
        self.restore(state)
        # Before anything is played: later it may differ for other reasons.
        yield {RANDOM: self.random_state()}
        for action in actions:
            yield self.play_reset() if action is None else self.play(action)
        yield self.left_state(self.save())

    def serve(self, line: Line) -> None:
        """Serve the requests of the other end of a line, without end."""
        while True:
            name, args = line.receive()
            try:
                found = getattr(self, name)(*args)
            except Exception as error:
                kind = IncompleteState if isinstance(error, IncompleteState) else RuntimeError
                found = kind(f"{type(error).__name__}: {error}")
            line.send(found)

    def replayed_here(self, state: bytes, actions: Sequence[Any]) -> list[Fields]:
        """Replay here; leave out values that differ in every process."""
        return [
            {key: one[key] for key in one if not key.startswith(OF_PROCESS)}
            for one in self.replayed(state, actions)
        ]

    def left_state(self, state: bytes) -> Fields:
        """Return the field of a state, or none if equal states need not be equal bytes."""
        return {NEXT: _short(state)} if self.codec.canonical else {}

    def play(self, action: Any) -> Fields:
        """Play one transition; return it field by field as bytes. An episode that ends is reset."""
        # Each instance is given its own: an env may write into an action, and it is played again.
        action = copy.deepcopy(action)
        started = time.perf_counter()
        obs, reward, terminated, truncated, info = self._step(action)
        self.step_seconds.append(time.perf_counter() - started)
        fields: Fields = self._fields("observation", obs)
        fields |= {
            "reward": np.float64(reward_of(reward)).tobytes(),
            "terminated": bool(terminated),
            "truncated": bool(truncated),
        }
        info = info or {}  # some envs return None
        fields |= _numeric("info", info)
        self.info = info
        if terminated or truncated:
            # Without a seed: what this reset draws has to be part of the state.
            fields |= self._after_reset()
        return fields | self._left()

    def play_reset(self) -> Fields:
        """Reset without a seed; see `play`."""
        return self._after_reset() | self._left()

    def _after_reset(self) -> Fields:
        obs, self.info = checked_reset(self.env, self.env.reset())
        return self._fields("observation after the next reset", obs)

    def _left(self) -> Fields:
        """Return what a transition leaves, beside what it shows."""
        return {RANDOM: self.random_state(), **self.outside()}

    def outside(self) -> Fields:
        """Return marks of process-wide generators, and of attributes left out as drawing."""
        return {**generators(), **named_as_drawing_marks(self._layers)}

    def around(self, names: Sequence[str]) -> Marks:
        """Return the marks of variables outside the env, by these names."""
        found = surroundings(self.env)
        return {name: found.get(name) for name in names}

    def reason(self) -> str:
        """Return a sentence on iteration orders that may have caused a difference; "" for none."""
        named = [
            f"{type(layer).__qualname__}.{name}"
            for layer in layers(self.env)
            if not module_of(type(layer)).startswith("plangym_ext.")  # such as a recorder
            for name, value in vars(layer).items()
            if not isinstance(value, gym.Env) and any(map(self.may_differ, sets_in([value])))
        ]
        if not named:
            return ""
        return (
            f". It may depend on the order of a set in {', '.join(named[:3])}, which no state "
            "holds, and which for a set of objects is that of their addresses; sort it, or keep a "
            "list or a dict"
        )

    def may_differ(self, found: set[Any]) -> bool:
        """Return whether a set may get another order."""
        return any(map(is_by_address, found))

    def keep_sets(self, fixed: Collection[int]) -> None:
        """Set the hashes of the env's sets that no step changes."""

    def unordered(self) -> str:
        """Return containers that were iterated in an undefined order; "" for none."""
        return ""

    def entropy_asked_by(self) -> str:
        """Return the env's own code that has asked the system for random bytes; "" for none."""
        return ""

    def random_state(self) -> tuple[tuple[str, bytes], ...]:
        """Return the states of the generators that attributes of the layers hold, by name."""
        # By `vars`: the property `np_random` itself would make one.
        return tuple(
            (f"{type(layer).__qualname__}.{name}", _random_content(value))
            for layer in layers(self.env)
            for name, value in vars(layer).items()
            if isinstance(value, _GENERATORS)
        )

    def attributes(self) -> Marks:
        """Return marks of the attributes of the layers that are state, and their classes."""
        found = Marking()
        for i, layer in enumerate(layers(self.env)):
            kind = type(layer)
            if not module_of(kind).startswith("plangym_ext."):  # such as a recorder
                found.add(f"the class of layer {i}", (kind.__qualname__,))
                for name, value in LayerAttributes(layer, ()).state().items():
                    found.add_parts(f"{kind.__qualname__}.{name}", value)
        return found.found

    def _step(self, action: Any) -> tuple[Any, ...]:
        """Step the env, which must return five values.

        Raises:
            WrongKind: it returns four, as envs of the old Gym do.
        """
        try:
            found: tuple[Any, ...] = self.env.step(action)
        except ValueError as error:  # a wrapper of gymnasium's has unpacked them
            if str(error) != FOUR_VALUES:
                raise
            found = (None,) * 4
        if len(found) != 5:
            raise WrongKind(wrong_step(self.env, len(found)))
        return found

    def _fields(self, name: str, obs: Any) -> Fields:
        return {
            f"{name}{leaf.name}": _short(
                content(part) if leaf.is_object else np.asarray(part).tobytes()
            )
            for leaf, part in zip(self._layout.leaves, self._layout.split(obs), strict=True)
        }


class RemoteSubject:
    """A subject in another process, which was forked before anything was played."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def replayed(self, state: bytes, actions: Sequence[Any]) -> Iterator[Fields]:
        """Replay there; see `Subject.replayed`."""
        yield from self._asked("replayed_here", state, list(actions))

    def around(self, names: Sequence[str]) -> Marks:
        """Return the outside variables of the env there; see `Subject.around`."""
        found: Marks = self._asked("around", names)
        return found

    def reason(self) -> str:
        """Return possible causes of a difference there; see `Subject.reason`."""
        found: str = self._asked("reason")
        return found

    def keep_sets(self, fixed: Collection[int]) -> None:
        """Send the hashes of unchanging sets; see `Subject.keep_sets`."""
        self._asked("keep_sets", fixed)

    def unordered(self) -> str:
        """Return containers iterated in an undefined order there; see `Subject.unordered`."""
        found: str = self._asked("unordered")
        return found

    def entropy_asked_by(self) -> str:
        """Return the code that has asked for random bytes there; see `Subject.entropy_asked_by`."""
        found: str = self._asked("entropy_asked_by")
        return found

    def _asked(self, name: str, *args: Any) -> Any:
        self._line.send((name, args))
        found = self._line.receive()
        if isinstance(found, BaseException):
            raise found
        return found


def _numeric(name: str, info: dict[str, Any]) -> dict[str, bytes]:
    """Return the numbers in an info, but for those that measure time."""
    fields: dict[str, bytes] = {}
    for key, value in (info or {}).items():
        if isinstance(value, dict):
            fields |= _numeric(f"{name}[{key!r}]", value)
        elif isinstance(value, bool | int | float | np.number | np.ndarray | np.bool_):
            kept = np.asarray(value)
            if kept.dtype.kind in "biuf" and (name, key) != ("info['episode']", "t"):
                fields[f"{name}[{key!r}]"] = _short(kept.tobytes())
    return fields


def _random_content(generator: Any) -> bytes:
    if isinstance(generator, RANDOM_TYPES):
        return random_bytes(generator)
    # Not by its own methods, which a subclass may have others for; `SystemRandom` has no state.
    words, gauss = _random.Random.getstate(generator), getattr(generator, "gauss_next", None)
    return hashlib.blake2b(repr((words, gauss)).encode(), digest_size=16).digest()


def _short(value: Any) -> Any:
    """Return a value, or the digest of one that takes much room."""
    if isinstance(value, bytes) and len(value) > _KEPT_BYTES:
        return hashlib.blake2b(value, digest_size=16).digest()
    return value

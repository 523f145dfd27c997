"""ReplayPart: state as the reset and the actions since, for simulators that cannot be copied.

A state is the reset that began the episode and the actions since. Restoring one
plays them again, which is exact for any deterministic simulator and costs about as
much as playing did. If the live episode is a prefix of the wanted one, it is
continued instead of rebuilt.

Keeping further instances at other points of the tree was measured and left out: a
step takes an instance away from the node it stands on, so for a tree search 8 of
them save 1 to 4 % of the steps.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.errors import DamagedState, IncompleteState, NotExact, plural
from plangym_ext.states import plain
from plangym_ext.states.families import family_of
from plangym_ext.states.part import StatePart, StateTooWide, get_block, put_block
from plangym_ext.states.playback import Playback
from plangym_ext.states.randomness.random_bytes import (
    RANDOM_TYPES,
    holds,
    random_bytes,
    set_state,
    state_of,
)

#: Longest history that a state may hold; restoring costs that many steps.
MAX_DEPTH = 100_000
# Room for an origin; one with long reset options makes the rows wider.
_ORIGIN_BYTES = 128


def _checksum(obs: Any) -> int:
    """Return the checksum of an observation that is plain data; 0 of any other."""
    if type(obs) is np.ndarray and not obs.dtype.hasobject:
        # 0 stands for "not known", so a sum that happens to be 0 becomes 1.
        return zlib.crc32(obs.tobytes()) or 1
    try:
        return zlib.crc32(plain.encode(obs)) or 1
    except plain.NotPlain:
        return 0


class ResetRecorder(gym.Wrapper[Any, Any, Any, Any]):
    """Records the resets of a simulator, directly around it.

    Attributes:
        origin: the reset that began the episode; empty if the calls that led to the simulator's
            state are unknown.
        shown: checksum of the simulator's last observation; 0 if a replay does not repeat it.
    """

    def __init__(self, env: gym.Env[Any, Any], playback: Playback | None = None) -> None:
        super().__init__(env)
        self.playback = playback or Playback(env)
        self.origin = b""
        self.shown = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode and remember how."""
        carried = self.playback.carried(options)
        if seed is None:
            # The generator goes on from where it is, so its state is the origin.
            start = random_bytes(self._generator())
            origin: tuple[Any, ...] = ("generator", start, options, carried)
        else:
            origin = ("seed", int(seed), options, carried)
        try:
            data = plain.encode(origin, "reset")
        except plain.NotPlain as error:
            raise IncompleteState(
                f"replay: {error}; reset options must be plain data to be played again"
            ) from error
        # Empty while the simulator moves: after a reset that raises nothing may be captured.
        self.origin = b""
        self.playback.prepare(carried)
        result = self.env.reset(seed=seed, options=options)
        self.origin = data
        self._note(result[0])
        return result

    def _generator(self) -> Any:
        """Return the simulator's generator."""
        generator = self.env.np_random
        if not isinstance(generator, RANDOM_TYPES):
            raise IncompleteState(
                f"replay: np_random of {type(self.env).__qualname__} must be a generator of "
                f"numpy, from which resets without a seed draw; it is a {type(generator).__name__}"
            )
        return generator

    def _note(self, obs: Any) -> None:
        """Keep a checksum of what the simulator shows."""
        if self.playback.repeats_observations:
            self.shown = _checksum(obs)

    def begin(self, origin: bytes) -> None:
        """Begin an episode from `origin`."""
        kind, start, options, carried = self._origin_of(origin)
        self.origin = b""
        self.playback.prepare(carried)
        if kind == "seed":
            obs, _ = self.env.reset(seed=start, options=options)
        else:
            # Before the reset, which draws from it as the live one did.
            set_state(self._generator(), state_of(start))
            obs, _ = self.env.reset(options=options)
        self._note(obs)
        self.origin = origin

    def _origin_of(self, data: bytes) -> tuple[Any, ...]:
        """Return kind, seed or generator, options and what is carried, as `reset` wrote them."""
        try:
            kind, start, options, carried = plain.decode(data)
            if (kind, type(start)) not in (("seed", int), ("generator", bytes)):
                raise ValueError(f"it begins with {kind!r:.40}")
            if type(options) not in (dict, type(None)):
                raise ValueError(f"its options are {options!r:.40}")
            if kind == "generator" and not holds(self._generator(), state_of(start)):
                raise ValueError("a state of another kind of generator")
        except plain.MALFORMED as error:
            raise DamagedState(f"replay: {error}; that is no reset") from error
        return kind, start, options, carried

    def known_origin(self) -> bytes:
        """Return `origin`, which a state needs.

        Raises:
            IncompleteState: there is none.
        """
        if not self.origin:
            raise IncompleteState(
                f"replay: the last reset or step of {type(self.env).__qualname__} raised, so "
                "how it came to be as it is cannot be played again. Reset it, or set a state."
            )
        return self.origin


@dataclass
class ReplayCount:
    """Cost of replays so far.

    Attributes:
        restores: states that were restored.
        rebuilds: restores that had to begin with the reset; the others went on from
            where the simulator was.
        steps: steps that were played again.
    """

    restores: int = 0
    rebuilds: int = 0
    steps: int = 0


class Recorder(ResetRecorder):
    """Records the whole episode: its origin and actions.

    Attributes:
        history: the actions, `item` bytes each.
        count: what `become` has cost.
    """

    def __init__(self, env: gym.Env[Any, Any], playback: Playback | None = None) -> None:
        super().__init__(env, playback)
        # Of the simulator's own space: wrappers above may take other actions than reach it.
        self._layout = SpaceLayout(env.action_space)
        # An action without any element still counts as a step.
        self.item = sum(map(_stored_bytes, self._layout.leaves)) or 1
        self.history = bytearray()
        self.count = ReplayCount()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        result = super().reset(seed=seed, options=options)
        # After the reset: if that raises, `origin` is empty, and no history counts without one.
        self.history.clear()
        return result

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step and remember the action."""
        if len(self.history) >= MAX_DEPTH * self.item:
            raise IncompleteState(
                f"replay: the episode has lasted {len(self.history) // self.item} steps, and a "
                f"state may hold at most {MAX_DEPTH}, for a restore plays all of them again. "
                "Reset the env, or limit its episodes with max_episode_steps."
            )
        data = self._encoded(action)
        # A step that raises may have moved the simulator half the way.
        origin, self.origin = self.origin, b""
        result = self.env.step(action)
        self.history += data
        self.origin = origin
        self._note(result[0])
        return result

    def become(self, origin: bytes, history: bytes, shown: int = 0) -> None:
        """Set the simulator to the end of the given episode.

        Args:
            origin: as the attribute.
            history: as the attribute.
            shown: what the simulator showed there, as the attribute; 0 if that is not known.

        Raises:
            DamagedState: the history cannot be one.
            NotExact: it shows something else now.
        """
        depth, rest = divmod(len(history), self.item)
        if rest or depth > MAX_DEPTH:
            raise DamagedState(
                f"replay: a history must hold at most {MAX_DEPTH} actions of {self.item} bytes "
                f"each; got {len(history)} bytes"
            )
        done = len(self.history)
        # A live episode that is longer than the wanted one differs, too: nothing steps back.
        rebuild = self.origin != origin or history[:done] != self.history
        actions = self._decoded(history if rebuild else history[done:])
        with self.playback.unseen():
            if rebuild:
                self.begin(origin)
            self.origin = b""
            obs = self.playback.play(actions)
        # Without any, `begin` has noted what is shown, or the live episode's last step has.
        if len(actions):
            self._note(obs)
        self.history[:] = history
        # `origin` is still empty: if this raises, the next restore begins with the reset.
        if shown and shown != self.shown:
            raise NotExact(
                f"replay: after {depth} {plural('step', depth)} {type(self.env).__qualname__} "
                "shows something else than it did when the state was captured: its episodes are "
                "not decided by seed and actions alone. Resets have to undo what steps change, and "
                "random numbers have to come from self.np_random."
            )
        self.origin = origin
        self.playback.show()
        self.count.restores += 1
        self.count.rebuilds += rebuild
        self.count.steps += len(actions)

    def _encoded(self, action: Any) -> bytes:
        parts = []
        for leaf, part in zip(self._layout.leaves, self._layout.split(action), strict=True):
            given = np.asarray(part)
            kept = given.astype(_stored(leaf))
            if not np.array_equal(kept, given):
                raise IncompleteState(
                    f"replay: action{leaf.name} {given!r} does not fit the space's {leaf.dtype} "
                    "without loss, so it could not be played again"
                )
            parts.append(kept.tobytes())
        return b"".join(parts).ljust(self.item, b"\0")

    def _decoded(self, history: bytes) -> Sequence[Any]:
        # [T, item] bytes, one row per step.
        rows = np.frombuffer(history, np.uint8).reshape(-1, self.item)
        parts, at = [], 0
        for leaf in self._layout.leaves:
            stop = at + _stored_bytes(leaf)
            kept = np.ascontiguousarray(rows[:, at:stop]).view(_stored(leaf))
            # A type of its own is a copy: the env may write into what it is given.
            parts.append(kept.reshape(len(rows), *leaf.shape).astype(leaf.dtype))
            at = stop
        return [self._layout.join(tuple(part[i] for part in parts)) for i in range(len(rows))]


def _stored(leaf: Any) -> np.dtype[Any]:
    """Return the type in which an action is kept: one byte for the small discrete ones."""
    space = leaf.space
    if isinstance(space, gym.spaces.Discrete) and space.start >= 0 and space.start + space.n <= 256:
        return np.dtype(np.uint8)
    return leaf.dtype


def _stored_bytes(leaf: Any) -> int:
    return _stored(leaf).itemsize * int(np.prod(leaf.shape, dtype=np.int64))


class ReplayPart(StatePart):
    """State of a simulator under a `Recorder`.

    Args:
        recorder: in place right on the simulator.
        depth: steps that an episode is expected to last at most.

    Attributes:
        count: what restoring has cost so far.
    """

    method = "replay"

    def __init__(self, recorder: Recorder, depth: int) -> None:
        spec = recorder.env.spec
        # Refused before a round trip: a short one may well agree by chance.
        family = family_of(recorder.env)
        is_known = family is not None and family.deterministic
        if spec is not None and spec.nondeterministic and not is_known:
            raise IncompleteState(f"replay: {spec.id} says that it is not deterministic")
        self._recorder = recorder
        self.count = recorder.count
        self._checks = recorder.playback.repeats_observations
        # Two blocks, each after 4 bytes of length, and the checksum.
        self.width = 8 + _ORIGIN_BYTES + depth * recorder.item + 4 * self._checks

    @property
    def depth(self) -> int:
        """Steps since the reset: what restoring the present state would play again."""
        return len(self._recorder.history) // self._recorder.item

    def capture(self, buffer: memoryview, offset: int, end: int) -> int:
        """Write origin, actions, and a checksum of the result."""
        offset = put_block(buffer, offset, end, self._recorder.known_origin())
        offset = put_block(buffer, offset, end, bytes(self._recorder.history))
        if not self._checks:
            return offset
        if offset + 4 > end:
            raise StateTooWide(offset + 4 - end)
        buffer[offset : offset + 4] = self._recorder.shown.to_bytes(4, "little")
        return offset + 4

    def restore(self, buffer: memoryview, offset: int) -> int:
        """Play the episode, or its missing part."""
        origin, offset = get_block(buffer, offset)
        history, offset = get_block(buffer, offset)
        if not self._checks:
            self._recorder.become(origin, history)
            return offset
        shown = int.from_bytes(buffer[offset : offset + 4], "little")
        self._recorder.become(origin, history, shown)
        return offset + 4

    def identity(self) -> dict[str, Any]:
        """Return the data on which the outcome of the actions depends."""
        found = self._recorder.playback.identity()
        return {**found, "checks": "observation"} if self._checks else found

"""State of a simulator that cannot be copied: how it got there.

A state is the reset that began the episode and the actions since. Restoring one
plays them again, which is exact for any deterministic simulator and costs as much
as playing did. If the live episode is a prefix of the wanted one, it is continued
instead of rebuilt.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from plangym_ext.core import plain
from plangym_ext.core.part import StatePart, get_block, put_block
from plangym_ext.core.rng import RNG_BYTES, GeneratorBytes
from plangym_ext.core.spaces import SpaceLayout
from plangym_ext.errors import IncompleteState

#: Longest history that a state may hold; restoring costs that many steps.
MAX_DEPTH = 100_000


class Recorder(gym.Wrapper[Any, Any, Any, Any]):
    """Sits right on a simulator and writes down the episode: its origin and actions."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self._rng = GeneratorBytes()
        self._layout = SpaceLayout(env.action_space)
        self.item = sum(_stored(leaf).itemsize * _size(leaf) for leaf in self._layout.leaves)
        self.origin = b""
        self.history = bytearray()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode and remember how."""
        if seed is None:
            # The generator goes on from where it is, so its state is the origin.
            start = bytearray(RNG_BYTES)
            self._rng.capture(self.unwrapped.np_random, memoryview(start), 0)
            origin: tuple[Any, ...] = ("generator", bytes(start), options)
        else:
            origin = ("seed", int(seed), options)
        try:
            self.origin = plain.encode(origin, "reset")
        except plain.NotPlain as error:
            raise IncompleteState(
                f"replay: {error}; reset options must be plain data to be played again"
            ) from error
        self.history.clear()
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step and remember the action."""
        data = self._encoded(action)
        result = self.env.step(action)
        self.history += data
        if len(self.history) > MAX_DEPTH * self.item:
            raise IncompleteState(
                f"replay: the episode is longer than {MAX_DEPTH} steps, more than a state may hold"
            )
        return result

    def become(self, origin: bytes, history: bytes) -> None:
        """Bring the simulator to the end of the given episode."""
        done = len(self.history)
        if self.origin != origin or history[:done] != self.history:
            kind, start, options = plain.decode(origin)
            if kind == "seed":
                self.reset(seed=start, options=options)
            else:
                self._rng.restore(self.unwrapped.np_random, memoryview(start), 0)
                self.reset(options=options)
            done = 0
        for at in range(done, len(history), self.item):
            self.step(self._decoded(history, at))

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
        return b"".join(parts)

    def _decoded(self, history: bytes, at: int) -> Any:
        parts = []
        for leaf in self._layout.leaves:
            stored = _stored(leaf)
            kept = np.frombuffer(history, stored, _size(leaf), at).reshape(leaf.shape)
            parts.append(kept.astype(leaf.dtype)[()])
            at += stored.itemsize * _size(leaf)
        return self._layout.join(tuple(parts))


def _size(leaf: Any) -> int:
    return int(np.prod(leaf.shape, dtype=np.int64))


def _stored(leaf: Any) -> np.dtype[Any]:
    """Type in which an action is kept: one byte for the small discrete ones."""
    space = leaf.space
    if isinstance(space, gym.spaces.Discrete) and space.start >= 0 and space.start + space.n <= 256:
        return np.dtype(np.uint8)
    return leaf.dtype


class ReplayPart(StatePart):
    """State of a simulator under a `Recorder`.

    Args:
        recorder: in place right on the simulator.
        depth: steps that an episode is expected to last at most.
    """

    method = "replay"

    def __init__(self, recorder: Recorder, depth: int) -> None:
        spec = recorder.unwrapped.spec
        if spec is not None and spec.nondeterministic:
            raise IncompleteState(f"replay: {spec.id} says that it is not deterministic")
        self._recorder = recorder
        self.width = 8 + 128 + depth * recorder.item

    def capture(self, buffer: memoryview, offset: int, end: int) -> int:
        """Write origin and actions."""
        offset = put_block(buffer, offset, end, self._recorder.origin)
        return put_block(buffer, offset, end, bytes(self._recorder.history))

    def restore(self, buffer: memoryview, offset: int) -> int:
        """Play the episode, or what is missing of it."""
        origin, offset = get_block(buffer, offset)
        history, offset = get_block(buffer, offset)
        self._recorder.become(origin, history)
        return offset

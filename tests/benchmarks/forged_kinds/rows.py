"""Rows with right checksums: bytes, numbers, splices, and names where a state has names."""

from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
from forge import altered, vocabulary
from forging import blocks_of, forged, namespaces, sealed
from ordinary_envs import Files, Maze, Programs
from parallel_envs import numbered, one_cartpole
from structures import Structured

import plangym_ext
from forged_kinds.outcome import Watch, outcome
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.errors import StateError
from plangym_ext.states.envelope import HEADER
from plangym_ext.states.snapshot import SnapshotPart

#: Envs by name, with the backend that they are made with; own ones are made by what stands there.
TARGETS: dict[str, Any] = {
    "CartPole-v1": "kernel",
    "Acrobot-v1": "kernel",
    "Pendulum-v1": "serial",
    "MountainCarContinuous-v0": "kernel",
    "FrozenLake-v1": "kernel",
    "Taxi-v4": "kernel",
    "Blackjack-v1": "serial",
    "plangym_ext/NarrowPath-v0": "kernel",
    "plangym_ext/TMaze-v0": "serial",
    "plangym_ext/2048-v0": "serial",
    "HalfCheetah-v5": "serial",
    "Reacher-v5": "serial",
    "ALE/Pong-v5": "serial",
    "MiniGrid-DoorKey-5x5-v0": "serial",
    "highway-fast-v0": "serial",
    "pettingzoo/mpe2.simple_spread_v3": "serial",
    "Agents": numbered,
    "One agent": one_cartpole,
    "Maze": Maze,
    "Files": Files,
    "Programs": Programs,
    **{
        f"Structured {number} {container}": functools.partial(Structured, number, container)
        for number, container in (
            (0, "held"),
            (1, "list"),
            (4, "dict"),
            (5, "nested"),
            (9, "deque"),
        )
    },
}
_WHOLE = (
    *(0, 1, -1, 2, 127, 255, 256, 624, 625, 2**15, 2**31 - 1, -(2**31), 2**40),
    *(2**62, 2**63 - 1, -(2**63)),
)
_REAL = (np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-320, 0.0, 1e30, 1e9, -1e9, 9e3, 3.5)
_NAMES = (
    *("__array_interface__", "__array_struct__", "__array__", "__cuda_array_interface__"),
    *("__deepcopy__", "__class__", "__dict__", "__reduce_ex__", "__len__", "__iter__", "__float__"),
    *("__dlpack__", "__index__", "_as_parameter_", "this", "dtype", "step", "reset", "np_random"),
    *("unwrapped", "spec", "action_space", "_np_random", "render_mode", "shape", "__wrapped__"),
)
_SECRET = np.frombuffer(b"what no state of this env ever held, and no row may show!", np.uint8)


class Rows:
    """Mutants of rows of one env.

    Args:
        name: one of `TARGETS`.
    """

    refusals = (StateError,)

    def __init__(self, name: str) -> None:
        how = TARGETS[name]
        # An audit forks, which the watch would take for what a mutant has done.
        self.env: Any = (
            plangym_ext.make(name, backend=how, audit="off")
            if isinstance(how, str)
            else GymEnv(how, audit="off")
        )
        self._secret = _SECRET.copy()
        self._watch = Watch()
        self._rows: list[np.ndarray] = []
        for seed in range(4):
            state, *_ = self.env.reset(seed=seed)
            self.env.action_space.seed(seed)
            rows = state[None]
            for _ in range(1 + 2 * seed):
                out = self.env.step_batch(np.asarray([self.env.action_space.sample()]), rows)
                if out.terminateds[0]:
                    break
                rows = out.states
            self._rows.append(rows[0].copy())
        width = max(map(len, self._rows))
        self._rows = [np.pad(row, (0, width - len(row))) for row in self._rows]
        self.env.action_space.seed(1)
        self._actions = [np.asarray([self.env.action_space.sample()]) for _ in range(3)]
        codec = getattr(self.env, "codec", None)
        self._is_graph = codec is not None and isinstance(codec.parts[-1], SnapshotPart)
        if self._is_graph:
            self.env.reset(seed=1)
            self._blocks = blocks_of(self.env)
            self._words = [*vocabulary(self.env, self._blocks)[:2000], *_NAMES]
        # Whatever it imports when something is refused is imported now.
        with contextlib.suppress(Exception):
            self._step(self._rows[0])
        damaged = self._rows[0].copy()
        damaged[-1] ^= 1
        with contextlib.suppress(Exception):
            self._step(damaged)

    def close(self) -> None:
        """Close the env."""
        self.env.close()

    def use(self, number: int) -> str:
        """Make a mutant and step from it; return what came of it."""
        row = self._mutant(random.Random(number))
        self._watch.seen.clear()
        self._watch.on = True
        found = outcome(lambda: self._step(row), self.refusals)
        self._watch.on = False
        if self._watch.seen:
            return f"code: {sorted(self._watch.seen)[0]}"
        if (self._secret != _SECRET).any():
            return "address: written to"
        return found

    def _step(self, row: np.ndarray) -> str:
        rows = row[None]
        for action in self._actions:
            out = self.env.step_batch(action, rows)
            shown = b"".join(np.asarray(leaf).tobytes() for leaf in _leaves(out.obs))
            if _SECRET[:16].tobytes() in shown or _SECRET[:6].astype(float).tobytes() in shown:
                return "address: read from"
            rows = out.states
        return "accepted"

    def _mutant(self, rng: random.Random) -> np.ndarray:
        if self._is_graph and rng.random() < 0.6:
            return self._named(rng) if rng.random() < 0.5 else self._altered(rng)
        return self._bytes(rng)

    def _altered(self, rng: random.Random) -> np.ndarray:
        return sealed(self.env, altered(self._blocks, rng, self._words).data())

    def _named(self, rng: random.Random) -> np.ndarray:
        """A name that libraries look up, in one of the places where names are."""
        self.env.reset(seed=rng.randrange(3))
        _, found = rng.choice(list(namespaces(self.env)))
        name = rng.choice(_NAMES if rng.random() < 0.7 else self._words)
        value = rng.choice(
            (
                {"data": (self._secret.ctypes.data, False), "shape": (9,), "typestr": "|u1"},
                {"data": (16, False), "shape": (9,), "typestr": "<f8", "version": 3},
                *(16, self._secret.ctypes.data, None, [], {}, "x", np.zeros(3), 1.5, (1,)),
            )
        )
        held, before = name in found, found.get(name)
        found[name] = value
        try:
            return forged(self.env)
        finally:
            if held:
                found[name] = before
            else:
                del found[name]

    def _bytes(self, rng: random.Random) -> np.ndarray:
        row = rng.choice(self._rows)[None].copy()
        size = int(row[0, 8:12].view("<u4")[0])
        payload = row[0, HEADER : HEADER + size]
        for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
            at = rng.randrange(size)
            data = rng.choice(_CHANGES)(rng, self._rows, size, at)
            payload[at : at + len(data)] = data[: size - at]
        if rng.random() < 0.1:
            size = rng.choice((0, 1, max(0, size - 1), size // 2, size))
            row[0, HEADER + size :] = 0
        if row.shape[1] != self.env.envelope.width:
            row = np.pad(row, ((0, 0), (0, max(0, self.env.envelope.width - row.shape[1]))))
        self.env.envelope.seal(row, size)
        return row[0]


def _leaves(obs: Any) -> list[Any]:
    if isinstance(obs, dict):
        return [leaf for one in obs.values() for leaf in _leaves(one)]
    if isinstance(obs, tuple):
        return [leaf for one in obs for leaf in _leaves(one)]
    return [obs]


def _number(dtype: str, values: tuple[Any, ...]) -> Callable[..., np.ndarray]:
    def change(rng: random.Random, *_: Any) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.array([rng.choice(values)]).astype(dtype).view(np.uint8)

    return change


_CHANGES: tuple[Callable[..., np.ndarray], ...] = (
    lambda rng, *_: np.array([rng.randrange(256)], np.uint8),
    lambda rng, *_: np.frombuffer(rng.randbytes(rng.randrange(1, 9)), np.uint8),
    _number("<i8", _WHOLE),
    _number("<i4", _WHOLE),
    _number("<f8", _REAL),
    _number("<f4", _REAL),
    lambda rng, *_: np.full(8, rng.choice((0, 255)), np.uint8),
    # From another state, or another place of one.
    lambda rng, rows, size, at: rng.choice(rows)[HEADER + at :][: rng.randrange(1, 65)],
    lambda rng, rows, size, at: rows[0][HEADER + rng.randrange(size) :][: rng.randrange(1, 17)],
)

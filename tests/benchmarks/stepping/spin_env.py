"""An env whose steps take the processor time that the action says, none for action 0."""

from __future__ import annotations

import struct
import time
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete

import plangym_ext
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.states.part import StatePart
from plangym_ext.workers.parallel_env import ParallelEnv

_COUNT = struct.Struct("<q")


class Spin(gym.Env):
    """Counts its steps; an action is a number of nanoseconds."""

    observation_space = Box(0.0, np.inf, (1,), np.float32)
    action_space = Discrete(1_000_000)
    _seen = np.zeros(1, np.float32)
    _info: dict[str, Any] = {}  # noqa: RUF012 - the same for every step

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.count = 0
        return self._seen, self._info

    def step(self, action: Any) -> Any:
        # Until the time is up, not for so many turns: equal processes differ by a fifth in how
        # long the turns of a loop take them.
        if action:
            end = time.thread_time_ns() + int(action)
            while time.thread_time_ns() < end:
                pass
        self.count += 1
        return self._seen, 0.0, False, False, self._info


class SpinPart(StatePart):
    """The count."""

    width = _COUNT.size

    def __init__(self, env: Any) -> None:
        self._env = env

    def capture(self, buffer: memoryview, offset: int, end: int) -> int:
        _COUNT.pack_into(buffer, offset, self._env.count)
        return offset + _COUNT.size

    def restore(self, buffer: memoryview, offset: int) -> int:
        (self._env.count,) = _COUNT.unpack_from(buffer, offset)
        return offset + _COUNT.size


plangym_ext.register(Spin.__module__, SpinPart, name="spin")


def serial() -> GymEnv:
    """On the serial backend."""
    return GymEnv(Spin)


def parallel(n_workers: int) -> ParallelEnv:
    """On the process backend."""
    return ParallelEnv(Spin, n_workers=n_workers)

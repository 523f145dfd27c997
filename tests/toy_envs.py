"""Envs that the tests share; worker processes import this module by its name."""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import subprocess
import sys
import threading
import time

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.wrappers import TimeLimit

from plangym_ext.core.families import Family, register_family
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.core.part import StatePart
from plangym_ext.core.rng import RNG_BYTES, GeneratorBytes

# Actions of `Faulty` from 2 on; 0 and 1 push the cart as in CartPole.
(
    RAISE,
    RAISE_UNPICKLABLE,
    RAISE_UNBUILDABLE,
    RAISE_PERCENT,
    SIGKILL,
    EXIT,
    SEGFAULT,
    KILL_ONCE,
    ODD_INFO,
    SLOW,
    NATIVE,
) = range(2, 13)


class EnvFaultError(Exception):
    """What `Faulty` raises."""


class UnpicklableError(Exception):
    """Carries a lock, which no pickle can hold."""

    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()


class UnbuildableError(Exception):
    """Pickles, but its constructor wants more than its `args` give back."""

    def __init__(self, code, text):
        super().__init__(f"{text} (code {code})")


class Tame(spaces.Discrete):
    """Discrete space whose samples are 0 or 1, so that a probe provokes no fault."""

    def sample(self, mask=None, probability=None):
        return super().sample() % 2


class Faulty(CartPoleEnv):
    """CartPole with a fault behind each action from `RAISE` on.

    Args:
        marker: path of a file; `KILL_ONCE` kills only while there is none.
        fail_in: "init", "reset" or None: raise there, from the second reset on.
        child: start a process that outlives the env unless somebody ends it.
    """

    def __init__(self, marker=None, fail_in=None, child=False, **kwargs):
        super().__init__(**kwargs)
        if fail_in == "init":
            raise EnvFaultError("init failed")
        self.action_space = Tame(13)
        self._marker, self._fail_in = marker, fail_in
        self.child_pid = subprocess.Popen(["sleep", "300"]).pid if child else 0

    def reset(self, *, seed=None, options=None):
        if self._fail_in == "reset" and options:
            raise EnvFaultError(f"reset failed with {options}")
        return super().reset(seed=seed, options=options)

    def step(self, action):
        info = {}
        if action >= RAISE:
            info = self._fault(int(action))
            action = 0
        obs, reward, terminated, truncated, _ = super().step(action)
        return obs, reward, terminated, truncated, info

    def _fault(self, action):
        if action == RAISE:
            raise EnvFaultError("step failed", self.state.tolist())
        if action == RAISE_UNPICKLABLE:
            raise UnpicklableError("step failed with a lock")
        if action == RAISE_UNBUILDABLE:
            raise UnbuildableError(7, "step failed")
        if action == RAISE_PERCENT:
            raise EnvFaultError("100% of %s and %d failed")
        if action == SIGKILL or (action == KILL_ONCE and self._first_time()):
            os.kill(os.getpid(), signal.SIGKILL)
        if action == EXIT:
            os._exit(3)
        if action == SEGFAULT:
            ctypes.string_at(0)
        if action == ODD_INFO:
            return {"odd": float(self.state[0])}
        if action == SLOW:
            time.sleep(0.3)
        if action == NATIVE:
            # PyDLL keeps the interpreter lock: no Python code runs meanwhile.
            ctypes.PyDLL(None).sleep(300)
        return {}

    def _first_time(self):
        try:
            os.close(os.open(self._marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def imported(self):
        """Names of the modules that this process has imported."""
        return sorted(sys.modules)


class Nested(gym.Env):
    """Env with nested spaces; its state is one integer and a generator.

    Observations, rewards and infos are functions of them, easy to work out by hand.
    """

    def __init__(self):
        self.observation_space = spaces.Dict(
            {
                "count": spaces.Discrete(1_000_000),
                "pair": spaces.Tuple(
                    [
                        spaces.Box(-np.inf, np.inf, (2, 3), np.float32),
                        spaces.MultiBinary(4),
                    ]
                ),
            }
        )
        self.action_space = spaces.Tuple(
            [spaces.Discrete(3, start=-1), spaces.Box(-1.0, 1.0, (2,), np.float32)]
        )
        self.count = 0

    def _outcome(self):
        bits = np.array([self.count >> k & 1 for k in range(4)], np.int8)
        box = np.full((2, 3), self.count / 8, np.float32)
        return {"count": self.count, "pair": (box, bits)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.count = int(self.np_random.integers(0, 4))
        return self._outcome(), {}

    def step(self, action):
        step, push = action
        noise = self.np_random.random()
        self.count += int(step) + 2
        info = {
            "count": self.count,
            "even": self.count % 2 == 0,
            "noise": noise,
            "push": np.array(push),
            "label": f"at {self.count}",
        }
        if self.count % 5 == 0:
            info["fifth"] = self.count // 5  # a key that not every step has
        return self._outcome(), noise + float(push[0]), self.count > 40, False, info


def limited_nested():
    """`Nested` that is truncated after 12 steps."""
    return TimeLimit(Nested(), 12)


class NestedPart(StatePart):
    """Codec of `Nested`."""

    def __init__(self, env):
        self._env = env
        self._rng = GeneratorBytes()
        self.width = 8 + RNG_BYTES

    def capture(self, buffer, offset, end):
        struct.pack_into("<q", buffer, offset, self._env.count)
        return self._rng.capture(self._env.np_random, buffer, offset + 8)

    def restore(self, buffer, offset):
        (self._env.count,) = struct.unpack_from("<q", buffer, offset)
        return self._rng.restore(self._env.np_random, buffer, offset + 8)


register_family(Family("nested", __name__, NestedPart))


def faulty_env(**kwargs):
    """`GymEnv` of a `Faulty`; `autoreset` is its own, the rest goes to the constructor."""
    settings = {key: kwargs.pop(key) for key in ("autoreset", "frameskip") if key in kwargs}
    return GymEnv(lambda: Faulty(**kwargs), name="Faulty", **settings)

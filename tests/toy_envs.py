"""Envs that the tests share; worker processes import this module by its name."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

from gymnasium import spaces
from gymnasium.envs.classic_control import CartPoleEnv

from plangym_ext.core.gym_env import GymEnv

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
    SLEEP,
    NATIVE,
    LAMBDA_INFO,
    MIXED_INFO,
    NAP,
) = range(2, 17)


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
    """CartPole with a fault for each action from `RAISE` on.

    Args:
        marker: path of a file; `KILL_ONCE` kills only while there is none. "{}" in it
            stands for the state. For `NAP` a folder, in which a file lies while it naps:
            until that is removed.
        fail_in: "init", "reset" or None: raise there, from the second reset on.
        child: start a process that outlives the env unless it is ended.
        stubborn: ignore what asks a process to end politely.
    """

    def __init__(self, marker=None, fail_in=None, child=False, stubborn=False, **kwargs):
        super().__init__(**kwargs)
        if stubborn and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if fail_in == "init":
            raise EnvFaultError("init failed")
        self.action_space = Tame(17)
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
        if action == LAMBDA_INFO:
            return {"callback": lambda: 0}
        if action == MIXED_INFO:
            return {"odd": 0.5, "text": "here", "things": [1, {"deep": (2, None)}]}
        if action == NAP:
            place = os.path.join(self._marker, str(os.getpid()))
            os.close(os.open(place, os.O_CREAT))
            while os.path.exists(place):
                time.sleep(0.01)
        if action == SLOW:
            time.sleep(0.3)
        if action == SLEEP:
            time.sleep(300)
        if action == NATIVE:
            # PyDLL keeps the interpreter lock: no Python code runs meanwhile.
            ctypes.PyDLL(None).sleep(300)
        return {}

    def _first_time(self):
        try:
            marker = self._marker.format(self.state.tobytes().hex())
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    @property
    def unpicklable(self):
        """A value that cannot leave this process."""
        return threading.Lock()

    @property
    def imported_modules(self):
        """Names of the modules that this process has imported."""
        return sorted(sys.modules)


def faulty_env(**kwargs):
    """Return a `GymEnv` of a `Faulty`; `autoreset` is its own, the rest goes to the constructor."""
    settings = {key: kwargs.pop(key) for key in ("autoreset", "frameskip") if key in kwargs}
    return GymEnv(lambda: Faulty(**kwargs), name="Faulty", **settings)


class Loud(CartPoleEnv):
    """Writes to its output and errors, as native code does."""

    def step(self, action):
        for fd in (1, 2):
            os.write(fd, b"step\n")
        return super().step(action)

"""An env that counts, its kernel, and what may be wrong with either."""

from __future__ import annotations

import gymnasium as gym
import numpy as np

import plangym_ext


class Counting(gym.Env):
    """Adds 1 or 2 to a count; at 5 it pays, or shows, what `broken` says."""

    def __init__(self, broken="nothing"):
        self.broken, self.count = broken, 0
        high = np.inf if broken == "infinite obs" else 1e6
        self.observation_space = gym.spaces.Box(-high, high, (1,), np.float64)
        self.action_space = gym.spaces.Discrete(2)

    def _shown(self):
        values = {"infinite obs": np.inf, "no obs": np.nan}
        return values.get(self.broken, 5.0) if self.count == 5 else float(self.count)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return np.array([0.0]), {}

    def step(self, action):
        self.count += int(action) + 1
        reward = np.nan if self.broken == "no reward" and self.count == 5 else float(self.count)
        return np.array([self._shown()]), reward, self.count >= 9, False, {}

    def get_state(self):
        return np.array([self.count], np.int64).view(np.uint8)

    def set_state(self, state):
        self.count = int(np.array(state).view(np.int64)[0])


COUNT = np.dtype([("count", "<i8")])


def step(state, params, action, info):
    state["count"] += action + 1
    bad = params[0] == 1 and state["count"] == 5
    return np.nan if bad else float(state["count"]), state["count"] >= 9, False


def reset(state, params):
    state["count"] = 0


def observe(state, params, obs):
    obs[0] = state["count"]
    if state["count"] == 5 and params[0] == 2:
        obs[0] = np.inf
    if state["count"] == 5 and params[0] == 3:
        obs[0] = np.nan


BROKEN = ["nothing", "no reward", "infinite obs", "no obs"]


def counting(broken):
    kernel = plangym_ext.Kernel(COUNT, step, reset, observe, (BROKEN.index(broken),))
    env = plangym_ext.GymEnv(lambda: Counting(broken), name="Counting")
    return plangym_ext.KernelEnv(env, kernel)

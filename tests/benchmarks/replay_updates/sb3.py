"""The same as `ours.py` for Stable-Baselines3, or SBX; the interpreter needs nothing else."""

from __future__ import annotations

import importlib
import sys
import time

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces

OBS, ACTION, STEPS = 17, 6, 20_000
_AT_ONCE = 20


class Noise(gym.Env):
    """An env of noise."""

    observation_space = spaces.Box(-np.inf, np.inf, (OBS,), np.float64)
    action_space = spaces.Box(-1, 1, (ACTION,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.standard_normal(OBS), {}

    def step(self, action):
        seen = self.np_random.standard_normal(OBS)
        return seen, float(self.np_random.standard_normal()), False, False, {}


def main() -> None:
    name, _, threads, seconds, device, library = sys.argv[1:]
    torch.set_num_threads(int(threads))
    made = getattr(importlib.import_module(library), name.upper())(
        "MlpPolicy",
        Noise(),
        buffer_size=STEPS,
        learning_starts=STEPS,
        batch_size=256,
        policy_kwargs={"net_arch": [256, 256]},
        device=device,
        seed=0,
    )
    made.learn(STEPS)
    made.train(_AT_ONCE, 256)
    begin, count = time.perf_counter(), 0
    while time.perf_counter() - begin < float(seconds):
        made.train(_AT_ONCE, 256)
        count += _AT_ONCE
    print(count / (time.perf_counter() - begin))


if __name__ == "__main__":
    main()

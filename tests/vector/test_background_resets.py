"""Rows whose episodes ended are reset in workers while the caller does something else."""

import functools
import time
from pathlib import Path

import gymnasium as gym
import numpy as np

from plangym_ext import make_vec


class Waits(gym.Env):
    """From its second reset on waits until a file is there."""

    observation_space = gym.spaces.Box(0, 9, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, path, render_mode=None):
        self.path, self.resets = Path(path), 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.resets, until = self.resets + 1, time.monotonic() + 30
        while self.resets > 1 and not self.path.exists():
            assert time.monotonic() < until, "the caller waits for this reset"
            time.sleep(0.01)
        return np.full(1, self.resets, np.float32), {}

    def step(self, action):
        return np.full(1, self.resets, np.float32), 1.0, bool(action), False, {}


def test_ended_rows_are_reset_while_the_caller_learns(tmp_path):
    make = functools.partial(Waits, str(tmp_path / "learned"))
    venv = make_vec(make, 2, n_workers=2, autoreset_mode="disabled", capture="off")
    venv.reset(seed=0)
    _, _, ended, _, _ = venv.step(np.array([1, 0]))
    venv.reset_async(options={"reset_mask": ended})
    (tmp_path / "learned").touch()  # what the reset waits for, and follows its begin
    obs, _ = venv.reset_wait()
    assert obs[:, 0].tolist() == [2.0, 1.0]
    venv.close()

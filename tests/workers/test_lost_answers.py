"""A worker dies when it has run its rows, and before what it had to say of them was read."""

from __future__ import annotations

import os
import signal
import time

import gymnasium as gym
import numpy as np
import pytest

from plangym_ext import ParallelEnv


class Sees(gym.Env):
    """Observes as many numbers as it likes: no array, so workers send them."""

    observation_space = gym.spaces.Sequence(gym.spaces.Box(-1e9, 1e9, (400,), np.float64))
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return (np.zeros(400),), {}

    def step(self, action):
        return (np.full(400, float(action)),), float(action), False, False, {"text": "x" * 3000}


@pytest.mark.parametrize("infos", ["numeric", "all"])
@pytest.mark.parametrize("num_rows", [4, 20, 48, 56])
def test_rows_are_run_again(num_rows, infos):
    actions = np.arange(num_rows) % 3
    with ParallelEnv(Sees, n_workers=1) as env:
        state, _, _ = env.reset(seed=0)
        states = np.repeat(state[None], num_rows, axis=0)
        pending = env.step_batch_async(actions, states, infos=infos)
        # Until it has reported all of them, and written as much as the channel takes.
        time.sleep(0.7)
        os.kill(env.batch_env._envs[0].process.pid, signal.SIGKILL)
        time.sleep(0.2)
        out = pending.wait()
    assert [row[0][0] for row in out.obs] == actions.tolist()
    assert out.rewards.tolist() == actions.tolist()
    if infos == "all":
        assert [out.infos[i]["text"] for i in range(num_rows)] == ["x" * 3000] * num_rows

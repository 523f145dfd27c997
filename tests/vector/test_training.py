"""A framework trains on; workers that die meanwhile change nothing of what it learns."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

import plangym_ext

vec_env = pytest.importorskip("stable_baselines3.common.vec_env")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
NUM_STEPS = 1024


class Killing(vec_env.VecEnvWrapper):
    """Kills a worker before some steps, and while others are under way."""

    def __init__(self, venv, between, within):
        super().__init__(venv)
        self.between, self.within = between, within
        self.num_steps, self.num_kills = 0, 0
        self.history = []

    def _kill(self):
        # Of two workers the other one each time, and always one that lives.
        pids = self.venv.venv.worker_pids
        os.kill(pids[self.num_kills % len(pids)], signal.SIGKILL)
        self.num_kills += 1

    def reset(self):
        return self.venv.reset()

    def step_async(self, actions):
        self.num_steps += 1
        if self.num_steps in self.between:
            self._kill()
        self.venv.step_async(actions)
        if self.num_steps in self.within:
            self._kill()

    def step_wait(self):
        result = self.venv.step_wait()
        self.history.append(result)
        return result


def trained(between=(), within=()):
    """What PPO learned, what it was shown, and how many workers died."""
    from stable_baselines3 import PPO

    from plangym_ext.vector.adapters.stable_baselines3 import StableBaselines3VecEnv

    venv = plangym_ext.make_vec("CartPole-v1", 4, n_workers=2, autoreset_mode="same_step")
    watched = Killing(StableBaselines3VecEnv(venv), between, within)
    model = PPO("MlpPolicy", vec_env.VecMonitor(watched), n_steps=64, batch_size=64, seed=0)
    model.learn(NUM_STEPS)
    venv.close()
    weights = [value.numpy().copy() for value in model.policy.state_dict().values()]
    returns = [episode["r"] for episode in model.ep_info_buffer]
    return weights, returns, watched


def test_training_goes_on_over_dead_workers():
    weights, returns, watched = trained()
    assert len(watched.history) == NUM_STEPS // 4
    # Between steps and within them, before a checkpoint and right after it.
    again, same_returns, killed = trained(between={1, 30, 66, 201}, within={2, 67, 128, 250})
    assert killed.num_kills == 8
    for step, (got, expected) in enumerate(zip(killed.history, watched.history, strict=True)):
        for mine, other in zip(got[:3], expected[:3], strict=True):
            assert mine.tobytes() == other.tobytes(), f"step {step}"
    assert same_returns == returns
    assert all(np.array_equal(mine, other) for mine, other in zip(again, weights, strict=True))

"""Ctrl-C in the middle of a batch."""

from __future__ import annotations

import time

import gymnasium as gym
import numpy as np
import pytest
from interrupting import EVERY_LINE, InterruptAt, InterruptWait

import plangym_ext
from plangym_ext.errors import WorkerDied
from plangym_ext.workers.batch_env import ExternalProcess
from plangym_ext.workers.channel import wait_readable


class Slow(gym.Env):
    """Takes its time over action 2; the state is a number that every action changes."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float64)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.number = 0
        return np.zeros(2), {}

    def step(self, action):
        if action == 2:
            time.sleep(0.03)
        self.number = (self.number * 3 + int(action)) % 1000
        return np.full(2, self.number / 1000), float(self.number), False, False, {}


@pytest.mark.slow
def test_batches_after_an_interrupt_are_right():
    with plangym_ext.ParallelEnv(Slow, n_workers=2) as env, plangym_ext.GymEnv(Slow) as reference:
        state, *_ = env.reset(seed=0)
        first = np.repeat(state[None], 12, 0)
        second = reference.step_batch(np.arange(12) % 3, first).states
        expected = reference.step_batch(np.zeros(12, int), second)
        for delay in (0.05, 0.1, 0.15):
            # 12 rows of 3 slow steps on two workers: at least half a second.
            with pytest.raises(KeyboardInterrupt), InterruptWait(delay):
                env.step_batch(np.full(12, 2), first, dt=3)
            got = env.step_batch(np.zeros(12, int), second)
            assert got.states.tobytes() == expected.states.tobytes()
            assert got.rewards.tobytes() == expected.rewards.tobytes()


@pytest.mark.slow
def test_an_interrupt_loses_nothing_of_what_a_new_worker_says_of_itself():
    for number in range(1, 200, 1 if EVERY_LINE else 17):
        process = ExternalProcess(Slow)
        process.build()
        try:
            assert wait_readable(process.process.signs, 30.0)
            with InterruptAt(number):
                process.describe()
            break
        except KeyboardInterrupt:
            try:
                assert process.describe()["name"]
            except WorkerDied:  # in the middle of reading it: the connection is given up at once
                process.restart()
                assert process.describe()["name"]
        finally:
            process.close()
    assert number > 20

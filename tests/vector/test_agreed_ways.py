"""Workers of one vector env capture equal envs in one way, whatever each has measured."""

from __future__ import annotations

import os

import gymnasium as gym
import numpy as np
import pytest

import plangym_ext


class Torn(gym.Env):
    """A walk; its constructor has the library prefer another way in every second process."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, folder):
        from plangym_ext.states.trials import choice

        marks = len(os.listdir(folder))
        with open(os.path.join(folder, str(os.getpid())), "w"):
            pass
        ways = ["snapshot", "replay"]
        choice.candidate_methods = lambda _: ways[:: 1 if marks % 2 else -1]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.random()
        return np.array([self.x]), {}

    def step(self, action):
        self.x += float(action) * self.np_random.random()
        return np.array([self.x]), self.x, False, False, {}


@pytest.mark.parametrize("killed", [False, True], ids=["first", "replaced"])
def test_states_of_one_workers_rows_fit_those_of_all(tmp_path, killed):
    with plangym_ext.make_vec([lambda: Torn(tmp_path)] * 2, n_workers=2) as venv:
        venv.reset(seed=0)
        venv.step(np.ones(2, np.int64))
        if killed:
            os.kill(venv.worker_pids[1], 9)
        states = venv.get_states()
        expected, *_ = venv.step(np.ones(2, np.int64))
        venv.set_states(states[::-1])
        found, *_ = venv.step(np.ones(2, np.int64))
        assert np.array_equal(found, expected[::-1])
        assert len({host.proved[0].found.method for host in venv._backend._hosts.hosts}) == 1

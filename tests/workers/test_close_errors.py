"""Envs that fail while they are closed: everything is closed, and the caller learns of it."""

from __future__ import annotations

import functools

import gymnasium as gym
import leaks
import numpy as np
import pytest

import plangym_ext
from plangym_ext import ExternalProcess


class Unclosable(gym.Env):
    """Writes a file when it is closed, and may raise then."""

    observation_space = gym.spaces.Box(0, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, path, fails):
        self.path, self.fails = path, fails

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 0.0, False, False, {}

    def close(self):
        self.path.touch()
        if self.fails:
            raise OSError("the simulator is gone")


@pytest.mark.parametrize("options", [{"backend": "serial"}, {"n_workers": 2}], ids=str)
def test_the_vector_env_closes_all_and_warns(tmp_path, options):
    paths = [tmp_path / str(row) for row in range(4)]
    makes = [functools.partial(Unclosable, path, row == 1) for row, path in enumerate(paths)]
    venv = plangym_ext.make_vec(makes, capture="off", **options)
    venv.reset(seed=0)
    pids = venv.worker_pids
    with pytest.warns(RuntimeWarning, match=r"OSError: the simulator is gone .*sub-env 1 was"):
        venv.close()
    assert all(path.exists() for path in paths)
    assert not any(map(leaks.is_running, pids))
    venv.close()  # and says nothing more


@pytest.mark.filterwarnings("ignore:close. everything is closed:RuntimeWarning")
@pytest.mark.parametrize("options", [{"backend": "serial"}, {"n_workers": 2}], ids=str)
def test_an_env_for_batches_raises_when_all_is_closed(tmp_path, options):
    env = plangym_ext.make(functools.partial(Unclosable, tmp_path / "0", True), **options)
    state, *_ = env.reset(seed=0)
    env.step_batch(np.zeros(4, int), [state] * 4)
    pids = [worker.process.pid for worker in env.batch_env] if "n_workers" in options else []
    with pytest.raises(OSError, match="the simulator is gone"):
        env.close()
    assert not any(map(leaks.is_running, pids))
    env.close()  # and says nothing more


def test_an_external_process_warns(tmp_path):
    worker = ExternalProcess(functools.partial(Unclosable, tmp_path / "0", True))
    worker.describe()
    pid = worker.process.pid
    with pytest.warns(RuntimeWarning, match="OSError: the simulator is gone"):
        worker.close()
    assert not leaks.is_running(pid)

"""Closing a vector env while another thread uses it, and what is left of one that is closed."""

from __future__ import annotations

import threading
import time

import gymnasium as gym
import numpy as np
import pytest

import plangym_ext
from plangym_ext.errors import ConcurrentUse, EnvClosed

EVENTS = []


class Slow(gym.Env):
    """Takes its time for a step, and notes what is done to it."""

    observation_space = gym.spaces.Discrete(2)
    action_space = gym.spaces.Discrete(99)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        EVENTS.append("step")
        time.sleep(action / 10)
        EVENTS.append("stepped")
        return 1, 0.0, False, False, {}

    def close(self):
        EVENTS.append("closed")


def stepping(venv, action, *, again):
    """Start a thread that steps, again and again or once; return it and its list of errors."""
    errors = []

    def run():
        try:
            venv.step(np.array([action]))
            while again:
                venv.step(np.array([action]))
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.1)
    return thread, errors


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("options", [{"backend": "serial"}, {"n_workers": 1}])
def test_a_step_of_another_thread_ends_before_its_env_is_closed(options, again):
    EVENTS.clear()
    venv = plangym_ext.make_vec(Slow, 1, capture="off", **options)
    venv.reset()
    thread, errors = stepping(venv, 3, again=again)
    venv.close()
    thread.join()
    assert len(errors) == again
    # The next step may also come while the env is being closed.
    assert all(isinstance(error, EnvClosed | ConcurrentUse) for error in errors)
    if "backend" in options:
        assert EVENTS == ["step", "stepped", "closed"]


@pytest.mark.slow
def test_a_step_that_does_not_end_is_not_closed_under():
    EVENTS.clear()
    venv = plangym_ext.make_vec(Slow, 1, capture="off", backend="serial")
    venv.reset()
    thread, errors = stepping(venv, 30, again=False)
    with pytest.raises(ConcurrentUse, match="another thread is in the middle"):
        venv.close()
    assert EVENTS == ["step"]
    thread.join()
    venv.close()
    assert EVENTS == ["step", "stepped", "closed"]
    assert errors == []


@pytest.mark.slow
def test_a_worker_that_does_not_end_its_step_is_ended():
    venv = plangym_ext.make_vec(Slow, 1, capture="off", n_workers=1)
    venv.reset()
    thread, errors = stepping(venv, 90, again=False)
    began = time.monotonic()
    venv.close()
    thread.join()
    assert time.monotonic() - began < 5
    assert isinstance(errors[0], EnvClosed)
    assert "another thread has closed this vector env in the middle" in str(errors[0])


def test_a_closed_vector_env_has_no_workers():
    venv = plangym_ext.make_vec(Slow, 2, capture="off", n_workers=2)
    assert len(venv.worker_pids) == 2
    venv.close()
    assert venv.worker_pids == ()

"""Closing a vector env while another thread uses it, and what is left of one that is closed."""

from __future__ import annotations

import functools
import threading
import time

import gymnasium as gym
import leaks
import numpy as np
import pytest
from clock_bounds import within

import plangym_ext
from plangym_ext.errors import ConcurrentUse, EnvClosed

EVENTS = []


class Slow(gym.Env):
    """Takes its time for a step, and notes what is done to it."""

    observation_space = gym.spaces.Discrete(2)
    action_space = gym.spaces.Discrete(99)

    def __init__(self, begun):
        self.begun = begun  # a file that is there when a step has begun

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        EVENTS.append("step")
        self.begun.touch()
        time.sleep(action / 10)
        EVENTS.append("stepped")
        return 1, 0.0, False, False, {}

    def close(self):
        EVENTS.append("closed")


def stepping(venv, action, begun, *, again):
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
    assert leaks.wait_until(begun.exists)
    return thread, errors


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("options", [{"backend": "serial"}, {"n_workers": 1}])
def test_a_step_of_another_thread_ends_before_its_env_is_closed(options, again, tmp_path):
    EVENTS.clear()
    begun = tmp_path / "begun"
    venv = plangym_ext.make_vec(functools.partial(Slow, begun), 1, capture="off", **options)
    venv.reset()
    thread, errors = stepping(venv, 3, begun, again=again)
    venv.close()
    thread.join()
    assert len(errors) == again
    # The next step may also come while the env is being closed.
    assert all(isinstance(error, EnvClosed | ConcurrentUse) for error in errors)
    if "backend" in options:
        assert EVENTS == ["step", "stepped", "closed"]


@pytest.mark.slow
def test_a_step_that_does_not_end_is_not_closed_under(tmp_path):
    EVENTS.clear()
    begun = tmp_path / "begun"
    venv = plangym_ext.make_vec(functools.partial(Slow, begun), 1, capture="off", backend="serial")
    venv.reset()
    thread, errors = stepping(venv, 50, begun, again=False)
    with pytest.raises(ConcurrentUse, match="another thread is in the middle"):
        venv.close()
    assert EVENTS == ["step"]
    thread.join()
    venv.close()
    assert EVENTS == ["step", "stepped", "closed"]
    assert errors == []


@pytest.mark.slow
def test_a_worker_that_does_not_end_its_step_is_ended(tmp_path):
    begun = tmp_path / "begun"
    venv = plangym_ext.make_vec(functools.partial(Slow, begun), 1, capture="off", n_workers=1)
    venv.reset()
    thread, errors = stepping(venv, 90, begun, again=False)
    began = time.monotonic()
    venv.close()
    thread.join()
    assert within(time.monotonic() - began, 5)
    assert isinstance(errors[0], EnvClosed)
    assert "another thread has closed this vector env in the middle" in str(errors[0])


def test_a_closed_vector_env_has_no_workers(tmp_path):
    make = functools.partial(Slow, tmp_path / "begun")
    venv = plangym_ext.make_vec(make, 2, capture="off", n_workers=2)
    assert len(venv.worker_pids) == 2
    venv.close()
    assert venv.worker_pids == ()

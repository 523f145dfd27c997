"""Sub-envs that do something else when they are played again: it is said, not gone on with."""

from __future__ import annotations

import os
import random
import signal

import gymnasium as gym
import numpy as np
import pytest

import plangym_ext
from plangym_ext.errors import NotExact, ResetNeeded
from plangym_ext.vector.sub_envs.checkpoint import ResultChecksum


class Level(gym.Env):
    """Draws its level from Python's global generator; episodes last ten steps.

    Args:
        shape: of the observations, all of whose numbers are the level.
        exact: draw from the env's own generator instead.
    """

    action_space = gym.spaces.Discrete(3)

    def __init__(self, shape=(1,), exact=False):
        self.observation_space = gym.spaces.Box(0, 1e9, shape, np.float32)
        self._exact = exact
        self.level = self.steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        draw = self.np_random.integers if self._exact else random.randrange
        self.level, self.steps = int(draw(10**6)), 0
        return self._obs(), {}

    def step(self, action):
        if action == 2:
            raise RuntimeError("told to fail")
        self.steps += 1
        return self._obs(), 0.0, self.steps >= 10, False, {}

    def _obs(self):
        return np.full(self.observation_space.shape, self.level, np.float32)


def vector_env(n_workers, **kwargs):
    # Unchecked: an env may well pass the short check that `make_vec` makes.
    backend = "serial" if n_workers is None else "process"
    make = lambda: Level(**kwargs)  # noqa: E731 - travels by value
    return plangym_ext.make_vec([make] * 2, n_workers=n_workers, backend=backend, check=False)


def played(venv, num_steps):
    venv.reset(seed=5)
    return [venv.step(np.array([0, 1]))[0] for _ in range(num_steps)]


def test_a_level_that_differs_after_a_kill_is_told():
    with vector_env(2) as venv:
        played(venv, 15)
        os.kill(venv.worker_pids[0], signal.SIGKILL)
        with pytest.raises(NotExact, match=r"sub-envs 0 to 0.*15 calls.*self\.np_random"):
            venv.step(np.array([0, 0]))
        with pytest.raises(ResetNeeded):
            venv.step(np.array([0, 0]))
        assert len(played(venv, 12)) == 12


def test_a_level_that_differs_after_a_failed_call_is_told():
    with vector_env(None) as venv:
        played(venv, 15)
        with pytest.raises(RuntimeError, match="told to fail"):
            venv.step(np.array([0, 2]))
        # Rows are brought back when the next call is made.
        with pytest.raises(NotExact, match=r"sub-envs 0 to 1.*15 calls"):
            venv.step(np.array([0, 0]))
        with pytest.raises(ResetNeeded):
            venv.step(np.array([0, 0]))


@pytest.mark.parametrize("shape", [(1,), (300, 300)], ids=["number", "picture"])
def test_exact_envs_go_on_after_kills_and_failures(shape):
    with vector_env(2, shape=shape, exact=True) as venv:
        shown = played(venv, 12)
        for _ in range(2):
            os.kill(venv.worker_pids[0], signal.SIGKILL)
            shown.append(venv.step(np.array([0, 0]))[0])
            with pytest.raises(RuntimeError, match="told to fail"):
                venv.step(np.array([0, 2]))
            shown.append(venv.step(np.array([0, 0]), env_ids=[1, 0])[0][::-1])
    with vector_env(None, shape=shape, exact=True) as venv:
        np.testing.assert_array_equal(shown, played(venv, 16))


RESULTS = (np.arange(3.0), np.zeros(3, bool))


def checksum_of(*calls):
    checksum = ResultChecksum()
    for results, shown in calls:
        checksum.add(results, shown)
    return checksum.value


@pytest.mark.parametrize("size", [3, 1000, 5000, 100_003])
def test_a_checksum_tells_what_rows_have_shown(size):
    obs = np.random.default_rng(0).normal(size=(3, size)).astype(np.float32)
    call, other = (RESULTS, (obs,)), (RESULTS, (obs + 1,))
    assert checksum_of(call, call) == checksum_of(call, call) != checksum_of(call, other)
    assert checksum_of(call, other) != checksum_of(other, call)
    assert checksum_of(call) != checksum_of(((np.arange(3.0) + 1, RESULTS[1]), (obs,)))
    again = ResultChecksum()
    again.add(*other)
    again.restart()
    again.add(*call)
    assert again.value == checksum_of(call)


def test_every_part_of_a_picture_is_looked_at_in_time():
    pixels = np.zeros((1, 64 * 256), np.uint8)
    calls = [(RESULTS, (pixels,))] * 256
    expected = checksum_of(*calls)
    for at in (0, 63, 64, 255, 256, 9000, pixels.size - 1):
        changed = pixels.copy()
        changed[0, at] = 1
        assert checksum_of(*[(RESULTS, (changed,))] * 256) != expected

"""Audits: futures of states in use are played again elsewhere, and differences are told."""

from __future__ import annotations

import itertools
import os
import time
import warnings

import gymnasium as gym
import numpy as np
import pytest

import plangym_ext
from plangym_ext.errors import InexactState, UnknownName
from plangym_ext.states.trials import audit as audits

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def audits_begin_soon(monkeypatch):
    monkeypatch.setattr(audits, "_EXPECTED", 0.02)


class Walk(gym.Env):
    """Draws its steps; after `late` steps from an iterator of the class, which no state holds."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gym.spaces.Discrete(3)
    numbers = itertools.count()
    late = 10**9

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.x = 0, 0.0
        return np.zeros(2), {}

    def step(self, action):
        self.t += 1
        self.x += self.np_random.random() if self.t <= self.late else next(self.numbers)
        return np.array([self.t, self.x]), float(action), self.t >= 10**6, False, {}


class LateWalk(Walk):
    """Is exact for longer than any proof."""

    late = 1500


def used(env, seconds):
    """Step an env, and capture states, until that many seconds have passed."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        env.step(1, return_state=True)


def told(play):
    """Play for a minute at most, until an audit tells of a difference."""
    with pytest.raises(InexactState, match=r"LateWalk|sub-envs") as raised:
        play(60)
    assert "differs" in str(raised.value)
    assert "cannot be trusted" in str(raised.value)


def test_an_env_whose_captured_states_go_wrong_is_found():
    with plangym_ext.make(LateWalk, backend="serial") as env:
        assert env.exact
        env.reset(seed=0)
        told(lambda seconds: used(env, seconds))


@pytest.mark.parametrize("workers", [{"backend": "serial"}, {"n_workers": 2}], ids=["here", "two"])
def test_a_vector_env_whose_captures_go_wrong_is_found(workers):
    def play(seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            venv.step(np.ones(2, np.int64))

    with plangym_ext.make_vec([LateWalk] * 2, **workers) as venv:
        venv.reset(seed=0)
        told(play)


@pytest.mark.parametrize("workers", [{"backend": "serial"}, {"n_workers": 1}], ids=["here", "one"])
def test_batches_from_late_states_are_found(workers):
    def play(seconds):
        until = time.monotonic() + seconds
        states = np.stack([late] * 4)
        while time.monotonic() < until:
            env.step_batch(np.ones(4, np.int64), states)

    with plangym_ext.make(LateWalk, audit="off", backend="serial") as env:
        env.reset(seed=0)
        for _ in range(1501):
            env.step(0)
        late = env.get_state()
    with plangym_ext.make(LateWalk, **workers) as env:
        told(play)


def test_an_exact_env_is_never_told(monkeypatch):
    with plangym_ext.make(Walk, backend="serial") as env:
        env.reset(seed=0)
        until = time.monotonic() + 60
        while not env.exactness.audits and time.monotonic() < until:
            used(env, 0.2)
        assert env.exactness.audits


class Choosy(Walk):
    """Refuses all actions but one, as envs do whose masks are told otherwise."""

    def step(self, action):
        assert action == 1
        return super().step(action)


class Signalling(Walk):
    """Reaches out of its process, which a copy that is audited must not; harmless here."""

    def step(self, action):
        if self.t > self.late:
            os.kill(os.getpid(), 0)
        return super().step(action)

    late = 1500


def test_an_env_that_refuses_what_an_audit_draws_is_not_blamed():
    with plangym_ext.make(Choosy, backend="serial", check=False) as env:
        env.reset(seed=0)
        until = time.monotonic() + 60
        while not env.exactness.audits and time.monotonic() < until:
            used(env, 0.2)
        assert env.exactness.audits


def test_an_env_that_reaches_out_of_its_process_is_not_blamed():
    with plangym_ext.make(Signalling, backend="serial", check=False) as env:
        env.reset(seed=0)
        until = time.monotonic() + 60
        while env.audit._failed < 1 and time.monotonic() < until:
            used(env, 0.2)
        assert env.audit._failed


def test_audits_warn_or_are_off_where_that_is_asked_for():
    with plangym_ext.make(LateWalk, backend="serial", audit="warn") as env:
        env.reset(seed=0)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            until = time.monotonic() + 60
            while not found and time.monotonic() < until:
                used(env, 0.2)
        assert "cannot be trusted" in str(found[0].message)
    with plangym_ext.make(LateWalk, backend="serial", audit="off") as env:
        env.reset(seed=0)
        used(env, 3)
        assert env.exactness.audits == 0
    with pytest.raises(UnknownName, match="audit must be one of raise, warn, off"):
        plangym_ext.make(LateWalk, audit="loud")


def test_audits_take_their_share_of_the_time():
    audit = audits.Audit("Walk", "raise")
    with plangym_ext.make(Walk, backend="serial", audit="off") as env:
        env.reset(seed=0)
        env.audit = audit
        begun = time.monotonic()
        while not audit.passed and time.monotonic() < begun + 120:
            used(env, 2)
        assert audit.passed
        # What one audit may take beyond it, on a machine that is busy with others.
        assert audit._spent <= audits.SHARE * (time.monotonic() - begun) + 1.0

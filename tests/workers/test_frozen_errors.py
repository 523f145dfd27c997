"""Errors of envs that take no notes, or say nothing of themselves, come as they were raised."""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import pytest

import plangym_ext
from plangym_ext import ParallelEnv
from plangym_ext.errors import InvalidOption, WorkerError


@dataclass(frozen=True)
class Frozen(Exception):
    """Takes no notes."""

    number: int


class Mute(Exception):
    """Has no text."""

    def __str__(self):
        raise RuntimeError("no text")


class Fails(gym.Env):
    """Raises in the second step, and in a reset with options."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (1,))
    action_space = gym.spaces.Discrete(3)

    def __init__(self, kind=Frozen):
        self.kind = kind

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        if options:
            raise self.kind(3)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.count += 1
        if action == 2 and self.count == 50:
            raise self.kind(7)
        return np.zeros(1, np.float32), 0.0, self.count == 60, False, {}


@pytest.mark.parametrize("n_workers", [None, 2])
@pytest.mark.parametrize("kind", [Frozen, Mute])
def test_vector_envs_raise_what_was_raised(kind, n_workers):
    with plangym_ext.make_vec(lambda: Fails(kind), 2, n_workers=n_workers) as venv:
        venv.reset(seed=0)
        # What cannot be pickled comes as an error that names it.
        raised = kind if n_workers is None else (kind, WorkerError)
        with pytest.raises(raised):
            venv.reset(options={"a": 1})
        venv.reset(seed=0)
        for _ in range(49):
            venv.step(np.ones(2, int))
        with pytest.raises(raised):
            venv.step(np.full(2, 2))


@pytest.mark.parametrize("timeout", ["x", [3], -1, 0, float("nan"), True, float("inf")])
def test_a_timeout_is_a_number_of_seconds(timeout):
    for make in (
        lambda: ParallelEnv(Fails, n_workers=1, timeout=timeout),
        lambda: plangym_ext.make_vec(Fails, 2, n_workers=1, timeout=timeout),
    ):
        with pytest.raises(InvalidOption, match="timeout must be a number of seconds above 0"):
            make()

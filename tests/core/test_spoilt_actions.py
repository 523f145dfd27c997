"""Envs that write into the action they are given: a held action stays what it was."""

from __future__ import annotations

import os
import signal

import gymnasium as gym
import numpy as np
import pytest

import plangym_ext
from plangym_ext.core.gym_env import GymEnv

NESTED = gym.spaces.Dict(
    {"push": gym.spaces.Box(-1e9, 1e9, (2,), np.float64), "gear": gym.spaces.Discrete(3)}
)
SPACES = {"box": NESTED["push"], "dict": NESTED}


class Spoiler(gym.Env):
    """Adds up its actions, and writes into each."""

    observation_space = gym.spaces.Box(-1e9, 1e9, (1,), np.float64)

    def __init__(self, kind):
        self.action_space = SPACES[kind]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.total = np.zeros(1)
        return self.total.copy(), {}

    def step(self, action):
        push = action["push"] if isinstance(action, dict) else action
        self.total += push[0]
        push *= 18
        return self.total.copy(), float(push[1]), False, False, {}


class Unreadable(Spoiler):
    """Can only be played again."""

    def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed, options=options)
        self.running = (k for k in iter(int, 1))
        return result


def action_of(kind):
    push = np.ones(2)
    return push if kind == "box" else {"push": push, "gear": 1}


def batch_of(kind, num):
    push = np.ones((num, 2))
    return push if kind == "box" else {"push": push, "gear": np.ones(num, np.int64)}


@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.parametrize("env_class", [Spoiler, Unreadable])
def test_a_held_action_is_the_same_in_every_step(env_class, kind):
    with GymEnv(lambda: env_class(kind)) as env:
        state, *_ = env.reset(seed=0)
        found = [env.step(action_of(kind), state, dt=dt).obs.tolist() for dt in (1, 2, 3)]
        assert found == [[1.0], [2.0], [3.0]]
        batch = env.step_batch(batch_of(kind, 3), np.stack([state] * 3), dt=np.array([1, 2, 3]))
        assert batch.obs[:, 0].tolist() == [1.0, 2.0, 3.0]
        assert batch.rewards.tolist() == [18.0, 36.0, 54.0]
        later = env.step_batch(batch_of(kind, 3), batch.states)
        assert later.obs[:, 0].tolist() == [2.0, 3.0, 4.0]
    with GymEnv(lambda: env_class(kind), frameskip=3) as env:
        state, *_ = env.reset(seed=0)
        assert env.step(action_of(kind), state).obs.tolist() == [3.0]


@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.parametrize("n_workers", [None, 1])
def test_what_a_vector_env_plays_again_is_what_was_given(n_workers, kind):
    class Failing(Spoiler):
        def step(self, action):
            if self.total[0] == 3 and os.environ.get("SPOILT_ACTIONS_FAIL"):
                raise RuntimeError("told to fail")
            return super().step(action)

    actions = batch_of(kind, 2)
    backend = "serial" if n_workers is None else "process"
    with plangym_ext.make_vec(
        [lambda: Failing(kind)] * 2, n_workers=n_workers, backend=backend
    ) as venv:
        venv.reset(seed=0)
        for k in range(3):
            assert venv.step(actions)[0].tolist() == [[k + 1.0]] * 2
        for _ in range(2):  # what is played again may spoil what is kept, too
            if n_workers is None:
                with pytest.MonkeyPatch.context() as patch:
                    patch.setenv("SPOILT_ACTIONS_FAIL", "1")
                    with pytest.raises(RuntimeError, match="told to fail"):
                        venv.step(actions)
            else:
                os.kill(venv.worker_pids[0], signal.SIGKILL)
        assert venv.step(actions)[0].tolist() == [[4.0]] * 2

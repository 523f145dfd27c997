"""Observations and rewards that are refused: native backends do what envs one by one do."""

from __future__ import annotations

import functools
from typing import NamedTuple

import gymnasium as gym
import numpy as np
import pytest
from balance_task import BalanceTask
from gymnasium import spaces
from same_results import assert_same

import plangym_ext
from plangym_ext import Kernel
from plangym_ext.envs.mujoco_tasks import register_task
from plangym_ext.errors import InvalidObservation
from plangym_ext.native.kernel.known import _registered, register_kernel

pytestmark = pytest.mark.slow

FINE, NAN, FAR, NAN_REWARD = range(4)
POLICIES = ("raise", "mark", "off", "strict")


def refused(policy, backend):
    """Actions that a policy refuses; MuJoCo's tasks have no bounds."""
    if policy in ("mark", "off"):
        return []
    return (
        [NAN, FAR, NAN_REWARD] if (policy, backend) == ("strict", "kernel") else [NAN, NAN_REWARD]
    )


class Tally(gym.Env):
    """Counts steps up to 99 and shows what the last action asks for; five steps end it."""

    action_space = spaces.Discrete(4)
    observation_space = spaces.Box(0, 99, (2,), np.float32)

    def __init__(self):
        self.count = self.wrong = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = self.wrong = 0
        return self._obs(), {}

    def step(self, action):
        self.count, self.wrong = self.count + 1, int(action)
        reward = np.nan if action == NAN_REWARD else 1.0
        return self._obs(), reward, self.count >= 5, False, {}

    def _obs(self):
        shown = {NAN: np.nan, FAR: 100.0}.get(self.wrong, self.count)
        return np.array([shown, self.count], np.float32)

    def get_state(self):
        return np.array([self.count, self.wrong], np.int64).view(np.uint8).copy()

    def set_state(self, state):
        self.count, self.wrong = (int(word) for word in state.view(np.int64))


class Nothing(NamedTuple):
    none: int = 0


def step(state, params, action, info):
    state["count"] += 1
    state["wrong"] = action
    return np.nan if action == NAN_REWARD else 1.0, state["count"] >= 5, False


def reset(state, params):
    state["count"] = state["wrong"] = 0


def observe(state, params, obs):
    obs[0] = obs[1] = state["count"]
    if state["wrong"] == NAN:
        obs[0] = np.nan
    elif state["wrong"] == FAR:
        obs[0] = 100.0


def tally_kernel(env):
    state = np.dtype([("count", "<i8"), ("wrong", "<i8")])
    return Kernel(state=state, step=step, reset=reset, observe=observe, params=Nothing())


class Lost(BalanceTask):
    """Shows numbers that are none, or far away, once it was pushed hard enough; draws nothing."""

    reads = ("qpos", "qvel", "ctrl")
    reads_before = ()
    contact_forces = False

    def observation(self, after):
        found = np.concatenate((after.qpos, after.qvel), axis=1)
        pushed = after.ctrl[:, 0]
        found[:, 0] = np.where(pushed > 0.9, np.nan, np.where(pushed < -0.9, 1e6, found[:, 0]))
        return found

    def reward(self, before, after, actions):
        return np.where(np.abs(after.ctrl[:, 0] - 0.5) < 0.05, np.nan, 1.0), {}


#: The actions that stand for `FINE` to `NAN_REWARD`.
PUSHES = np.array([[0.0], [1.0], [-1.0], [0.5]], np.float32)


@pytest.fixture(params=["kernel", "mujoco"])
def made(request):
    """Function that makes a vector env of three rows, and the actions that it takes."""
    name = f"test/Values-{request.param}-v0"
    known = dict(_registered)
    if request.param == "kernel":
        gym.register(name, Tally)
        register_kernel(Tally, tally_kernel)
        actions = np.arange(4)
    else:
        register_task(name, Lost)
        actions = PUSHES
    make = functools.partial(plangym_ext.make_vec, name, 3, check=False)
    yield make, request.param, actions
    _registered.clear()
    _registered.update(known)
    gym.registry.pop(name)


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
@pytest.mark.parametrize("policy", POLICIES)
def test_native_rows_are_looked_at_as_live_ones(made, policy, mode):
    make, backend, actions = made
    options = {"invalid": policy, "autoreset_mode": mode}
    with make(backend=backend, **options) as native, make(backend="serial", **options) as live:
        assert native.backend == backend
        assert_same(native.reset(seed=1), live.reset(seed=1), types=False)
        for wrong in (FINE, NAN, FAR, NAN_REWARD, FINE, FINE, FINE):
            chosen = actions[[FINE, FINE, wrong]]
            if wrong in refused(policy, backend):
                shown = native.observations()
                for venv in (native, live):
                    with pytest.raises(InvalidObservation, match="sub-env 2: "):
                        venv.step(chosen)
                # The step has not happened.
                assert_same(native.observations(), shown)
            else:
                assert_same(native.step(chosen), live.step(chosen), types=False)
        assert_same(native.get_states(), live.get_states())


def test_rows_of_batches_are_looked_at_likewise(made):
    _, backend, actions = made
    name = f"test/Values-{backend}-v0"
    settings = {"check": False, "invalid": "strict"}
    with (
        plangym_ext.make(name, backend=backend, **settings) as native,
        plangym_ext.make(name, backend="serial", **settings) as serial,
    ):
        for env in (native, serial):
            state, *_ = env.reset(seed=1)
            states = np.stack([state] * 3)
            assert env.step_batch(actions[[FINE] * 3], states).rewards.tolist() == [1.0] * 3
            for wrong in refused("strict", backend):
                with pytest.raises(InvalidObservation) as caught:
                    env.step_batch(actions[[FINE, FINE, wrong]], states)
                assert "in row 2" in "".join(caught.value.__notes__)

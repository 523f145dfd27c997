"""What envs of other people return and hold: rewards, infos, loggers, specs."""

import logging
import os
import sys
import threading
import time
import types

import gymnasium as gym
import numpy as np
import pytest

from plangym_ext import check_env, make, make_vec
from plangym_ext.errors import InvalidObservation
from plangym_ext.states.trials.fork import ForkFailed


class Odd(gym.Env):
    """Counts, and returns what it was told to."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)
    reward, info = 1.0, {}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return np.zeros(1), {}

    def step(self, action):
        self.at += 1
        return np.full(1, float(self.at)), self.reward, False, False, self.info


class Several(Odd):
    reward = (1.0, 2.0)


class Vector(Odd):
    reward = np.array([1.0, 2.0])


class OneInArray(Odd):
    reward = np.array([1.5])


class NoInfo(Odd):
    info = None


class Logging(Odd):
    """Keeps a logger, a lock and a file at the top, and a logger further down."""

    def __init__(self):
        self.log = logging.getLogger("odd")
        self.lock = threading.Lock()
        self.file = open("/dev/null", "a")  # noqa: SIM115 - it is the env's
        self.parts = {"log": logging.getLogger("odd.parts"), "count": 0}

    def step(self, action):
        with self.lock:
            self.parts["count"] += 1
            self.log.debug("step")
            self.file.write("step")
        return super().step(action)

    def close(self):
        self.file.close()


class Shapes(Odd):
    """Tells an array whose length is drawn by the reset."""

    def reset(self, *, seed=None, options=None):
        obs, _ = super().reset(seed=seed)
        self.length = 1 + (seed or 0) % 3
        return obs, self._told()

    def _told(self):
        return {"points": np.arange(float(self.length)), "inner": {"p": np.zeros((self.length, 2))}}

    def step(self, action):
        *rest, _ = super().step(action)
        return (*rest, self._told())


@pytest.mark.parametrize("env", [Several, Vector])
@pytest.mark.parametrize("check", [True, False])
def test_several_rewards_are_refused_when_the_env_is_made(env, check):
    with pytest.raises(InvalidObservation, match="one for each agent or objective"):
        make(env, backend="serial", check=check)


@pytest.mark.parametrize("env", [Several, Vector])
def test_several_rewards_are_refused_by_a_vector_env_alike(env):
    with make_vec(env, 2, backend="serial") as venv:
        venv.reset(seed=0)
        with pytest.raises(InvalidObservation, match="one for each agent or objective"):
            venv.step(np.zeros(2, np.int64))


@pytest.mark.parametrize("dt", [1, 3])
def test_an_array_of_one_number_is_a_reward(dt):
    with make(OneInArray, backend="serial") as env, make_vec(OneInArray, 2) as venv:
        state, _, _ = env.reset(seed=0)
        assert env.step(0, dt=dt).reward == 1.5 * dt
        found = env.step_batch(np.zeros(2, np.int64), [state, state], dt=dt)
        assert found.rewards.tolist() == [1.5 * dt] * 2
        venv.reset(seed=0)
        assert venv.step(np.zeros(2, np.int64))[1].tolist() == [1.5, 1.5]


@pytest.mark.parametrize("infos", ["numeric", "all", "none"])
def test_an_info_of_none_is_an_empty_one(infos):
    with make(NoInfo, backend="serial") as env:
        state, _, _ = env.reset(seed=0)
        assert set(env.step(0).info) == {"n_step", "dt"}
        found = env.step_batch(np.zeros(2, np.int64), [state, state], infos=infos)
        assert found.obs.tolist() == [[1.0], [1.0]]


@pytest.mark.parametrize("n_workers", [0, 2])
def test_infos_of_differing_shapes_are_kept_as_objects(n_workers):
    with make_vec(Shapes, 3, n_workers=n_workers) as venv:
        _, infos = venv.reset(seed=[0, 1, 2])
        for _ in range(2):
            assert [len(points) for points in infos["points"]] == [1, 2, 3]
            assert [inner.shape for inner in infos["inner"]["p"]] == [(1, 2), (2, 2), (3, 2)]
            infos = venv.step(np.zeros(3, np.int64))[4]


def test_what_belongs_to_the_process_stays_what_it_is():
    with make(Logging, backend="serial") as env:
        base = env.gym_env.unwrapped
        held = base.log, base.lock, base.file
        state, _, _ = env.reset(seed=0)
        count = base.parts["count"]
        env.step(0)
        env.set_state(state)
        assert (base.log, base.lock, base.file) == held
        assert base.parts == {"log": logging.getLogger("odd.parts"), "count": count}
        assert base.parts["log"] is logging.getLogger("odd.parts")


@pytest.mark.parametrize("configured", [True, False])
def test_an_env_with_a_logger_is_the_same_in_workers(configured):
    root = logging.getLogger()
    handler = logging.StreamHandler()
    if configured:
        root.addHandler(handler)
    try:
        with make(Logging, n_workers=2) as env:
            state, _, _ = env.reset(seed=0)
            assert env.step_batch(np.zeros(2, np.int64), [state] * 2).obs.tolist() == [[1], [1]]
    finally:
        root.removeHandler(handler)


def test_specs_are_taken_as_gymnasium_takes_them():
    tripled = gym.wrappers.TransformReward(gym.make("CartPole-v1"), lambda reward: 3 * reward)
    with make(tripled.spec, backend="serial") as env, make_vec(tripled.spec, 2) as venv:
        env.reset(seed=0)
        assert env.step(0).reward == 3.0
        venv.reset(seed=0)
        assert venv.step(np.zeros(2, np.int64))[1].tolist() == [3.0, 3.0]
    tripled.close()


def test_arguments_of_a_spec_may_be_replaced():
    with make(gym.spec("FrozenLake-v1"), is_slippery=False, backend="serial") as env:
        env.reset(seed=0)
        assert env.gym_env.spec.kwargs["is_slippery"] is False


def test_make_vec_says_what_it_takes():
    with pytest.raises(TypeError, match=r"make_vec: expected a registered gymnasium id.*got None"):
        make_vec(None, 2)


class Simulation:
    """An env of another interface, which `unwrapped` of its adapter leads to."""

    def reset(self):
        self.position = 0


class Adapter(gym.Env):
    """An adapter as robosuite has one: its own `unwrapped` is no gymnasium env."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = gym.spaces.Discrete(3)

    def __init__(self):
        self.simulation = Simulation()

    @property
    def unwrapped(self):
        return self.simulation

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.simulation.reset()
        return np.zeros(1), {}

    def step(self, action):
        self.simulation.position += int(action) + self.np_random.integers(2)
        return np.full(1, self.simulation.position, np.float64), 1.0, False, False, {}


@pytest.mark.parametrize("capture", ["auto", "replay"])
def test_an_adapter_whose_unwrapped_is_no_gymnasium_env_is_restored(capture):
    with make(Adapter, capture=capture, backend="serial") as env:
        env.reset(seed=0)
        env.reset()
        kept = env.get_state()
        shown = env.step(2)[1]
        env.step(1)
        env.set_state(kept)
        np.testing.assert_array_equal(env.step(2)[1], shown)
        assert check_env(env, num_steps=30).exact


class Vectorized(Odd):
    """Holds a method whose function is what numpy.vectorize returns."""

    def __init__(self):
        self.shift = types.MethodType(np.vectorize(lambda self, by: self.at + by), self)

    def step(self, action):
        self.at += 1
        return self.shift(np.ones(1)).astype(np.float64), 1.0, False, False, {}


def test_a_method_of_any_callable_is_looked_into():
    with make(Vectorized, backend="serial") as env:
        assert env.exact
        env.reset(seed=0)


class OnlyOnce(Odd):
    """Its constructor needs what is there once, as mazes need the file that they write."""

    def __init__(self, made):
        made.append(self)
        if len(made) > 1:
            raise ValueError("no such file")


def test_an_env_that_cannot_be_constructed_again_is_checked_without_it():
    made = []
    with make(lambda: OnlyOnce(made), backend="serial") as env:
        report = check_env(env, num_steps=20)
        assert report.exact
        assert report.round_trip.instances == 2
        assert "and in a second instance" not in str(report)
        assert "constructed: ValueError: no such file" in str(report)


class Draws(Odd):
    """Waits for threads that a copy of the process lacks, as an OpenGL context does."""

    def step(self, action):
        if getattr(sys, "drawn_in", os.getpid()) != os.getpid():  # where no pickle takes it along
            time.sleep(60)
        return super().step(action)


@pytest.mark.slow
def test_where_a_copy_hangs_a_new_process_checks(monkeypatch):
    monkeypatch.setattr("plangym_ext.states.trials.fresh.SILENCE", 0.5)
    with make(Draws, backend="serial") as env:
        monkeypatch.setattr(sys, "drawn_in", os.getpid(), raising=False)
        report = check_env(env, num_steps=20)
        assert report.round_trip.instances == 2
        assert "in the same process, and in a second instance" in str(report)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_copy_that_sleeps_is_stopped_long_before_its_time(monkeypatch):
    # Each of twenty steps sleeps for a minute there.
    monkeypatch.setattr("plangym_ext.states.trials.fresh.SILENCE", 600.0)
    with make(Draws, backend="serial") as env:
        monkeypatch.setattr(sys, "drawn_in", os.getpid(), raising=False)
        assert check_env(env, num_steps=20).round_trip.instances == 2


def test_where_a_new_process_cannot_either_it_is_told(monkeypatch):
    monkeypatch.setattr("plangym_ext.states.trials.fresh.SILENCE", 0.5)
    lock = threading.Lock()
    with make(lambda: Draws() if lock else None, backend="serial") as env:
        monkeypatch.setattr(sys, "drawn_in", os.getpid(), raising=False)
        with pytest.raises(ForkFailed, match=r"did nothing for too long .*; and its constructor"):
            check_env(env, num_steps=20)

"""Actors, their workers and nodes that die or hang: every row is what it is without."""

from __future__ import annotations

import os
import signal
import time

import gymnasium as gym
import numpy as np
import pytest
from batches import stop
from gymnasium import spaces
from leaks import children

from plangym_ext.testing.backend import assert_equal

pytest.importorskip("ray", reason="the ray backend")

import ray_cluster

from plangym_ext.core.gym_env import GymEnv
from plangym_ext.errors import DamagedState, WorkerTimeout
from plangym_ext.workers.ray import ray_rows
from plangym_ext.workers.ray.ray_env import RayEnv

pytestmark = pytest.mark.slow
ROWS = 60
RAISES, SLEEPS = 999_998, 999_999


class Slow(gym.Env):
    """Counts, draws its rewards, and takes 5 ms a step; one action raises, and one sleeps."""

    def __init__(self):
        self.observation_space = spaces.Box(0, np.inf, (1,), np.float64)
        self.action_space = spaces.Discrete(1_000_000)  # the two are not drawn
        self.count = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(1), {}

    def step(self, action):
        if action == RAISES:
            raise OSError("this action is broken")
        time.sleep(60 if action == SLEEPS else 0.005)
        self.count += int(action) + 1
        return np.full(1, float(self.count)), self.np_random.random(), False, False, {}


@pytest.fixture(scope="module")
def cluster():
    with ray_cluster.running((1, 1)) as found, pytest.MonkeyPatch.context() as patch:
        patch.setattr(ray_rows, "_LEAST_SECONDS", 1e-9)
        yield found


@pytest.fixture(scope="module")
def env(cluster):
    with RayEnv(Slow, timeout=6) as env:
        ray_cluster.await_actors(env, 2)
        yield env


@pytest.fixture(autouse=True)
def memory_is_given_back(env):
    env.pages.close()
    yield
    env._end_abandoned()
    # Ray may not have found yet that an actor which was ended is dead: until then the batch that it
    # was asked for keeps its memory.
    deadline = time.monotonic() + 30
    while env.runs and time.monotonic() < deadline:
        for run in list(env.runs):
            run.reap()
        time.sleep(0.01)
    env.pages.close()


def batch(seed):
    """Return actions, states and what comes of them."""
    if not hasattr(batch, "pool"):
        with GymEnv(Slow) as serial:
            state, *_ = serial.reset(seed=0)
            batch.pool = [state]
            for t in range(10):
                batch.pool.append(serial.step(t % 2, return_state=True).state)
    rng = np.random.default_rng(seed)
    return rng.integers(2, size=ROWS), np.stack(batch.pool)[rng.integers(11, size=ROWS)]


def expected(actions, states):
    with GymEnv(Slow) as serial:
        return serial.step_batch(actions, states)


def assert_right_despite(env, fault, seed):
    """Begin a batch, do something to it, and compare what comes with the serial backend's."""
    actions, states = batch(seed)
    pending = env.step_batch_async(actions, states)
    time.sleep(0.05)
    fault()
    assert_equal(pending.wait(60), expected(actions, states), "after the fault")


def actor(env, *, near):
    """Return the actor that writes to this process's memory, or the one that does not."""
    ray_cluster.await_actors(env, 2)
    return next(one for one in env.pool.actors if one.shares_memory == near)


@pytest.mark.parametrize("near", [True, False], ids=["near", "far"])
def test_the_rows_of_an_actor_that_is_killed_run_again(env, near):
    pid = actor(env, near=near).description["pid"]
    assert_right_despite(env, lambda: os.kill(pid, signal.SIGKILL), seed=1)
    assert actor(env, near=near).description["pid"] != pid


def test_a_worker_under_an_actor_is_replaced_there(env):
    one = actor(env, near=False)
    pid = one.description["pid"]
    worker = min(child for child, *_ in children(pid))
    assert_right_despite(env, lambda: os.kill(worker, signal.SIGKILL), seed=2)
    assert one.description["pid"] == pid


def test_an_actor_that_is_stopped_is_named_and_replaced(env):
    one = actor(env, near=False)
    pid = one.description["pid"]
    actions, states = batch(6)
    pending = env.step_batch_async(actions, states)
    stop(pid)
    with pytest.raises(WorkerTimeout, match=rf"actor \d \(pid {pid} on .*rows \d+ to \d+"):
        pending.wait(2)
    assert_right_despite(env, lambda: None, seed=7)


def test_a_row_that_hangs_is_named_by_its_number(env):
    actions, states = batch(8)
    actions[41] = SLEEPS
    with pytest.raises(WorkerTimeout, match=r"at row 41, action \[?999999"):
        env.step_batch(actions, states)
    assert_right_despite(env, lambda: None, seed=13)


def test_an_error_of_the_env_names_the_row_of_the_batch(env):
    actions, states = batch(9)
    actions[[50, 57]] = RAISES
    with pytest.raises(OSError, match="this action is broken") as caught:
        env.step_batch(actions, states)
    notes = " ".join(caught.value.__notes__)
    assert "row 50, action [999998]" in notes
    assert "in actor" in notes
    states[55, -1] ^= 1
    with pytest.raises(DamagedState, match=r"step_batch: states\[55\]"):
        env.step_batch(actions * 0, states)
    assert_right_despite(env, lambda: None, seed=10)


def test_batches_that_are_abandoned_or_closed_leave_the_others_alone(env):
    actions, states = batch(11)
    for _ in range(3):
        env.step_batch_async(actions, states)
    assert_right_despite(env, lambda: None, seed=12)


def test_a_node_that_dies_is_done_without_and_used_again_when_it_is_back(env, cluster):
    far = actor(env, near=False)
    node = next(node for node in cluster.list_all_nodes() if node is not cluster.head_node)
    assert_right_despite(env, lambda: cluster.remove_node(node), seed=3)
    assert far not in ray_cluster.ready_actors(env)
    assert_right_despite(env, lambda: None, seed=4)
    back = cluster.add_node(num_cpus=1, object_store_memory=ray_cluster.STORE)
    actor(env, near=False)
    assert_right_despite(env, lambda: None, seed=5)
    assert far in ray_cluster.ready_actors(env)
    cluster.remove_node(back)

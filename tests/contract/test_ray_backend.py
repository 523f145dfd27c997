"""The ray backend equals the serial one, on several nodes of one machine.

The driver's node has one processor, and its actor writes to the driver's memory; the other two
nodes are reached through Ray's object store alone.
"""

from __future__ import annotations

import functools
from typing import ClassVar

import nested_env
import numpy as np
import pytest
from contract.backend_contract import BackendContract
from growing_env import Growing

from plangym_ext.testing.backend import assert_equal

pytest.importorskip("ray", reason="the ray backend")

import ray_cluster

import plangym_ext
from plangym_ext.arrays.nested import rows_of
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.planners import MCTS
from plangym_ext.workers.ray import ray_rows

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("cluster")]


made = functools.partial(plangym_ext.make, backend="ray")


@pytest.fixture(scope="module")
def cluster():
    with ray_cluster.running() as found:
        yield found


class RayContract(BackendContract):
    """The contract, in waves and with slots."""

    @pytest.fixture(scope="class")
    @classmethod
    def candidate(cls, cluster, pool):
        with pytest.MonkeyPatch.context() as patch, made(cls.constructor()) as env:
            patch.setattr(ray_rows, "_LEAST_SECONDS", 1e-9)  # few rows are worth sharing
            ray_cluster.await_actors(env, 3)
            size, horizon = max(12, *cls.batch_sizes), max(cls.horizons)
            actions = cls.actions(env, (size, horizon), seed=0)
            held = [env.rollout_batch(actions, pool[:size]) for _ in range(6)]
            begun = [
                env.step_batch_async(rows_of(actions, (slice(None), 0)), pool[:size])
                for _ in range(8)
            ]
            del held, begun
            env.states.allocate(6)
            env._end_abandoned()
            yield env

    def test_all_nodes_take_part(self, candidate):
        ready = candidate.pool.actors
        assert sorted(actor.shares_memory for actor in ready) == [False, False, True]
        assert all(actor.rate for actor in ready)

    def test_batches_in_flight(self, serial, candidate, pool):
        waves = [
            (self.actions(serial, (size,), seed=size), pool[size : 2 * size])
            for size in (3, 12, 5, 7)
        ]
        pending = [candidate.step_batch_async(actions, states) for actions, states in waves]
        for (actions, states), one in reversed([*zip(waves, pending, strict=True)]):
            assert_equal(one.wait(), serial.step_batch(actions, states), "in flight")

    def test_slots_and_given_arrays(self, serial, candidate, pool):
        found = []
        for env in (serial, candidate):
            slots = env.states.allocate(6)
            env.states[slots] = pool[:6]
            rewards = np.zeros(6, np.float32)
            actions = self.actions(serial, (6,), seed=8)
            env.step_slots(actions, slots, slots[::-1], out={"rewards": rewards}, infos="all")
            found.append((env.states[slots].tobytes(), rewards.tobytes()))
            env.states.free(slots)
        assert found[0] == found[1]


class TestCartPole(RayContract):
    """Terminations by falling and truncations at 15 steps; actors hold the kernel."""

    options: ClassVar = {"max_episode_steps": 15}
    num_steps = 40

    @pytest.mark.parametrize("options", [{}, {"wave_size": 4, "waves_in_flight": 3}], ids=str)
    def test_searches_find_what_they_find_on_the_serial_backend(
        self, serial, candidate, pool, options
    ):
        planner = MCTS(24, rollout_depth=5, **options)
        found = []
        for env in (serial, candidate):
            rngs = [np.random.default_rng(seed) for seed in range(3)]
            plans = planner.plan_batch(env, pool[:3], rngs=rngs)
            found.append([(plan.visits.tolist(), plan.q.tolist()) for plan in plans])
        assert found[0] == found[1]


class TestHalfCheetah(RayContract):
    """Actors hold MuJoCo's threads."""

    name = "HalfCheetah-v5"
    options: ClassVar = {"max_episode_steps": 20}
    batch_sizes: ClassVar = (1, 7, 33)
    horizons: ClassVar = (1, 30)
    num_steps = 40


class TestMsPacman(RayContract):
    """Actors hold worker processes; sticky actions, and pictures."""

    name = "ALE/MsPacman-v5"
    options: ClassVar = {"max_episode_steps": 20}
    batch_sizes: ClassVar = (1, 7)
    horizons: ClassVar = (1, 30)
    num_steps = 30


class TestOwnEnv(RayContract):
    """A class of the caller's, with nested spaces and infos that not every row has."""

    batch_sizes: ClassVar = (1, 7, 33)

    @classmethod
    def constructor(cls):
        return nested_env.limited_nested


def test_states_that_outgrow_their_rows_run_again_in_wider_ones(monkeypatch):
    monkeypatch.setattr(ray_rows, "_LEAST_SECONDS", 1e-9)
    with made(Growing) as env, GymEnv(Growing) as serial:
        ray_cluster.await_actors(env, 3)
        state, *_ = serial.reset(seed=0)
        narrow, long = env.state_width, np.ones((12, 40), int)
        found, expected = (one.rollout_batch(long, [state] * 12) for one in (env, serial))
        assert np.array_equal(found.obs, expected.obs)
        assert env.state_width > narrow
        ends = env.step_batch([1] * 12, found.states)
        assert np.array_equal(ends.obs, serial.step_batch([1] * 12, expected.states).obs)

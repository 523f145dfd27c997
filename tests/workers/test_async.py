"""Batches in flight: several at once, in any order, dropped, failing, or with a death inside."""

import functools
import gc
import os
import signal

import leaks
import numpy as np
import pytest
import toy_envs
from batches import pids, warm_up
from toy_envs import Faulty, faulty_env

from plangym_ext.core.results import Transitions
from plangym_ext.errors import (
    BatchPending,
    EnvClosed,
    InvalidAction,
    PoisonState,
    WorkerTimeout,
)
from plangym_ext.testing.backend import assert_equal
from plangym_ext.workers.batch_env import BatchEnv, ExternalProcess
from plangym_ext.workers.parallel_env import ParallelEnv

pytestmark = [
    pytest.mark.slow,  # workers take about 0.3 s to start
    pytest.mark.filterwarnings("ignore:.*You are calling 'step.*:UserWarning"),
]


@pytest.fixture(scope="module", params=["serial", "process"])
def env(request, walk, pair):
    if request.param == "process":
        yield pair
        return
    with faulty_env() as env:
        warm_up(env, walk)
        yield env


def batch_of(walk, size, seed):
    rng = np.random.default_rng(seed)
    return rng.integers(2, size=size), walk[rng.integers(len(walk), size=size)]


# Order ------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 5])
def test_batches_in_flight_may_be_collected_in_any_order(env, serial, walk, count):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        sizes = rng.integers(0, 40, size=count)
        batches = [batch_of(walk, size, k) for k, size in enumerate(sizes)]
        pending = [env.step_batch_async(*batch, dt=1 + seed) for batch in batches]
        for k in rng.permutation(count):
            want = serial.step_batch(*batches[k], dt=1 + seed)
            assert_equal(pending[k].wait(), want, f"batch {k} of {sizes}")


def test_other_calls_come_between(env, serial, walk):
    one, other = batch_of(walk, 20, 0), batch_of(walk, 7, 1)
    pending = env.step_batch_async(*one)
    assert_equal(env.step_batch(*other), serial.step_batch(*other), "between")
    sequences = np.zeros((7, 5), int)
    want = serial.rollout_batch(sequences, other[1])
    assert_equal(env.rollout_batch(sequences, other[1]), want, "rollout between")
    env.reset(seed=4)
    env.step(1)
    assert_equal(pending.wait(), serial.step_batch(*one), "begun first")


def test_slots_and_states_in_flight_together(env, serial, walk):
    slots = env.states.allocate(16)
    env.states[slots] = walk
    pending = [
        env.step_slots_async([0] * 8, slots[:8], slots[:8]),
        env.step_batch_async([1] * 16, walk),
        env.step_slots_async([1] * 8, slots[8:], slots[8:]),
    ]
    wanted = [serial.step_batch([0] * 8, walk[:8]), serial.step_batch([1] * 16, walk)]
    wanted.append(serial.step_batch([1] * 8, walk[8:]))
    for k in (2, 0, 1):
        want = wanted[k] if k == 1 else Transitions(*wanted[k][1:])
        assert_equal(pending[k].wait(), want, f"batch {k}")
    assert env.states[slots[:8]].tobytes() == wanted[0].states.tobytes()
    assert env.states[slots[8:]].tobytes() == wanted[2].states.tobytes()
    env.states.free(slots)


def test_result_can_be_asked_for_again(env, walk):
    pending = env.step_batch_async([0] * 16, walk)
    assert pending.wait() is pending.wait()
    assert pending.poll()
    failing = env.step_batch_async([toy_envs.RAISE] * 2, walk[:2])
    for _ in range(2):
        with pytest.raises(toy_envs.EnvFaultError):
            failing.wait()
    assert failing.poll()


def test_poll_tells_when_a_batch_is_done(pair, walk):
    slow = pair.step_batch_async([toy_envs.SLOW] * 2, walk[:2])
    assert not slow.poll()
    assert not slow.poll(0.01)
    assert slow.poll(20.0)
    assert slow.poll()
    assert slow.wait().rewards.tolist() == [1.0, 1.0]


def test_arguments_are_checked_at_once(env, walk):
    with pytest.raises(InvalidAction, match="step_batch"):
        env.step_batch_async([0] * 3, walk)
    with pytest.raises(InvalidAction, match="must lie in"):
        env.step_batch_async([99] * 16, walk)


def test_results_of_a_batch_survive_later_ones(env, serial, walk):
    held = [env.step_batch_async(*batch_of(walk, 64, k)).wait() for k in range(8)]
    for k, found in enumerate(held):
        assert_equal(found, serial.step_batch(*batch_of(walk, 64, k)), f"held {k}")


# Dropped ----------------------------------------------------------------------------


def test_batches_that_are_dropped_disturb_no_other(env, serial, walk):
    for k in range(30):
        dropped = env.step_batch_async(*batch_of(walk, 1 + k, k))
        del dropped
        if k % 3 == 0:
            want = serial.step_batch(*batch_of(walk, 9, k))
            assert_equal(env.step_batch(*batch_of(walk, 9, k)), want, f"after drop {k}")
    gc.collect()


def test_dropped_rows_stay_where_they_were(env, serial, walk):
    for one in (env, serial):
        one.set_state(walk[5])
        one.step_batch([0, 1, 0])
    dropped = env.step_batch_async([1, 1, 1])
    del dropped
    assert_equal(env.step_batch([0, 0, 1]), serial.step_batch([0, 0, 1]), "after the drop")


# Errors -----------------------------------------------------------------------------


def test_error_belongs_to_its_own_batch(env, serial, walk):
    good, bad = batch_of(walk, 12, 0), [0, 1, toy_envs.RAISE, 0]
    pending = [
        env.step_batch_async(*good),
        env.step_batch_async(bad, walk[:4]),
        env.step_batch_async(*good),
    ]
    with pytest.raises(toy_envs.EnvFaultError) as caught:
        pending[1].wait()
    assert "row 2, action [2]" in caught.value.__notes__[0]
    for k in (2, 0):
        assert_equal(pending[k].wait(), serial.step_batch(*good), f"batch {k}")


@pytest.mark.parametrize("victims", [[0], [0, 1]], ids=str)
def test_deaths_while_two_batches_are_in_flight(victims, mortal, serial, walk):
    slow = np.zeros(16, int)
    slow[[0, 4]] = toy_envs.SLOW
    before = pids(mortal)
    batches = [(slow, walk), batch_of(walk, 30, 1)]
    pending = [mortal.step_batch_async(*batch) for batch in batches]
    assert not pending[0].poll(0.05)
    for index in victims:
        os.kill(before[index], signal.SIGKILL)
    quick = (np.zeros(16, int), walk)  # `SLOW` pushes the cart as 0 does
    for k in (1, 0):
        want = serial.step_batch(*(quick if k == 0 else batches[k]))
        assert_equal(pending[k].wait(), want, f"batch {k}")
    changed = [a != b for a, b in zip(before, pids(mortal), strict=True)]
    assert changed == [index in victims for index in range(2)]


def test_poison_in_one_of_two_batches(mortal, serial, walk):
    good = batch_of(walk, 30, 1)
    pending = [
        mortal.step_batch_async([0, toy_envs.SIGKILL, 0], walk[:3]),
        mortal.step_batch_async(*good),
    ]
    assert_equal(pending[1].wait(), serial.step_batch(*good), "the innocent batch")
    with pytest.raises(PoisonState) as caught:
        pending[0].wait()
    assert caught.value.row == 1


def test_waiting_no_longer_than_asked_for(mortal, serial, walk):
    before = pids(mortal)
    good = batch_of(walk, 8, 0)
    pending = mortal.step_batch_async([0, toy_envs.SLEEP, 0, 0], walk[:4])
    later = mortal.step_batch_async(*good)
    with pytest.raises(WorkerTimeout, match=r"within 0\.3 s at row 1, action 12.*was stopped") as e:
        pending.wait(timeout=0.3)
    with pytest.raises(WorkerTimeout):
        pending.wait()
    (hung,) = e.value.workers
    assert f"worker {hung} (pid {before[hung]})" in str(e.value)
    assert "_fault" in str(e.value), "the stack of the worker"
    assert_equal(later.wait(), serial.step_batch(*good), "the batch after it")
    changed = [a != b for a, b in zip(before, pids(mortal), strict=True)]
    assert changed == [index == hung for index in range(2)]
    assert mortal.step_batch_async(*good).wait(timeout=30.0).rewards.shape == (8,)


# Rows that continue -----------------------------------------------------------------


def test_rows_in_flight_are_not_touched(env, serial, walk):
    for one in (env, serial):
        one.set_state(walk[5])
        one.step_batch([0, 1, 0])
    place = env.get_state()
    pending = env.step_batch_async([1, 1, 0])
    for call in (
        lambda: env.step_batch([0, 0, 0]),
        lambda: env.step_batch_async([0]),
        lambda: env.reset(seed=0),
        lambda: env.set_state(walk[0]),
        lambda: env.set_state(walk[:3]),
        lambda: env.sync_states(walk[0]),
    ):
        with pytest.raises(BatchPending, match="without states is in flight"):
            call()
    # Nothing of it was done: neither env nor rows have moved.
    assert env.get_state().tobytes() == place.tobytes()
    assert_equal(pending.wait(), serial.step_batch([1, 1, 0]), "in flight")
    assert_equal(env.step_batch([0, 0, 0]), serial.step_batch([0, 0, 0]), "afterwards")
    env.reset(seed=0)


def test_processes_of_a_batch_in_flight_are_not_reset():
    env = BatchEnv([ExternalProcess(Faulty, index=i) for i in range(2)])
    try:
        _, states = env.reset(seed=0)
        pending = env.step_batch_async([0, 1], return_state=True)
        with pytest.raises(BatchPending):
            env.reset(seed=1)
        with pytest.raises(BatchPending):
            env.sync_states(states[0])
        assert_equal(pending.wait(), env.step_batch([0, 1], states), "in flight")
        env.reset(seed=1)
    finally:
        env.close()


# Closing ----------------------------------------------------------------------------


@pytest.mark.parametrize("action", [0, toy_envs.SLOW, toy_envs.NATIVE])
def test_close_with_batches_in_flight(action, walk):
    env = ParallelEnv(Faulty, n_workers=2)
    env.reset(seed=0)
    found = pids(env)
    pending = [env.step_batch_async([action] * 4, walk[:4]) for _ in range(2)]
    pending.append(env.step_batch_async([0, 1]))
    env.close()
    env.close()
    assert not any(map(leaks.is_running, found))
    for batch in pending:
        for _ in range(2):
            with pytest.raises(EnvClosed, match="closed before this batch was done"):
                batch.wait()
        assert batch.poll(10.0)
    with pytest.raises(EnvClosed):
        env.step_batch_async([0] * 4, walk[:4])


def test_results_outlive_the_env(serial, walk):
    many = np.resize(walk, (600, walk.shape[1]))
    with ParallelEnv(Faulty, n_workers=2) as env:
        done = env.step_batch_async([0] * 600, many)
        found = done.wait()
    assert_equal(found, serial.step_batch([0] * 600, many), "after close")
    assert done.wait() is found


def test_forgotten_env_with_batches_in_flight(walk):
    env = ParallelEnv(functools.partial(Faulty), n_workers=2)
    found = pids(env)
    pending = env.step_batch_async([toy_envs.SLOW] * 4, walk[:4])
    del env, pending
    gc.collect()
    assert leaks.wait_until(lambda: not any(map(leaks.is_running, found)))

"""Workers that do not get on: named with their stack, replaced, and no other worker with them."""

import functools
import os
import signal
import time

import gymnasium as gym
import leaks
import numpy as np
import pytest
import toy_envs
from batches import pids, stop, walk_of
from clock_bounds import within
from toy_envs import Faulty

import plangym_ext
from plangym_ext.errors import InvalidOption, WorkerDied, WorkerTimeout
from plangym_ext.testing.backend import assert_equal
from plangym_ext.workers import limits, worker_handle
from plangym_ext.workers.batch_env import ExternalProcess
from plangym_ext.workers.parallel_env import ParallelEnv

pytestmark = [
    pytest.mark.slow,  # deadlines have to pass
    pytest.mark.filterwarnings("ignore:.*You are calling 'step.*:UserWarning"),
]


def parallel(timeout, n_workers=2, **kwargs):
    return ParallelEnv(functools.partial(Faulty, **kwargs), n_workers=n_workers, timeout=timeout)


def replaced(env, before):
    return [i for i, (a, b) in enumerate(zip(before, pids(env), strict=True)) if a != b]


def test_make_takes_the_limit_of_a_row():
    hangs = functools.partial(Faulty, stubborn=True)
    with plangym_ext.make(hangs, n_workers=1, timeout=0.4) as env:
        state, _, _ = env.reset(seed=0)
        with pytest.raises(WorkerTimeout, match="row 0"):
            env.step_batch(np.array([toy_envs.SLEEP]), [state])
    with plangym_ext.make("CartPole-v1", backend="process", n_workers=1, timeout=None) as env:
        assert env.batch_env.row_timeout is None
    with pytest.raises(
        InvalidOption, match=r"make: timeout must be a number of seconds .* got inf"
    ):
        plangym_ext.make("CartPole-v1", timeout=float("inf"))


@pytest.fixture(scope="module")
def stubborn():
    """The serial reference of an env that ignores SIGTERM, and 16 states of its walk."""
    polite = signal.getsignal(signal.SIGTERM)
    try:
        with plangym_ext.make(functools.partial(Faulty, stubborn=True), backend="serial") as env:
            signal.signal(signal.SIGTERM, polite)
            yield env, walk_of(env)
    finally:
        signal.signal(signal.SIGTERM, polite)


@pytest.mark.parametrize(
    ("call", "action"),
    [
        ("step_batch", toy_envs.NATIVE),
        ("step_slots", toy_envs.SLEEP),
        ("out", toy_envs.NATIVE),
        ("rollout", toy_envs.SLEEP),
        ("rows", toy_envs.SLEEP),
        ("poll", toy_envs.NATIVE),
    ],
)
def test_hung_row_is_named_and_its_worker_alone_replaced(call, action, stubborn):
    # Native code holds the interpreter lock, and the process ignores SIGTERM.
    serial, walk = stubborn
    with parallel(0.4, stubborn=True) as env:
        env.set_state(walk[0])
        slots = env.states.allocate(16)
        env.states[slots] = walk
        out = {"obs": np.zeros((16, 4), np.float32)}
        before = pids(env)
        actions = np.zeros(16, int)
        actions[5] = action
        pending = []
        calls = {
            "step_batch": lambda: env.step_batch(actions, walk),
            "step_slots": lambda: env.step_slots(actions, slots, slots),
            "out": lambda: env.step_batch(actions, walk, out=out),
            "rollout": lambda: env.rollout_batch(np.stack([actions] * 2, 1), walk),
            "rows": lambda: env.step_batch(actions),
            "poll": lambda: pending[0].wait(),
        }
        if call == "poll":
            pending.append(env.step_batch_async(actions, walk))
            assert pending[0].poll(30.0), "a batch that hangs is done when that is known"
        with pytest.raises(WorkerTimeout) as caught:
            calls[call]()
        (hung,) = caught.value.workers
        text = str(caught.value)
        assert f"worker {hung} (pid {before[hung]}) did not answer 'rows' within 0.4 s" in text
        shown = f"[{action} {action}]" if call == "rollout" else str(action)
        assert f"at row 5, action {shown}" in text
        assert "_fault" in text
        assert "toy_envs.py" in text
        assert replaced(env, before) == [hung]
        assert leaks.wait_until(lambda: not leaks.is_running(before[hung]))
        # The rows and slots are where they were, and the handle works.
        assert env.states[slots].tobytes() == walk.tobytes()
        good = np.arange(16) % 2
        want = serial.step_batch(good, walk)
        assert_equal(env.step_batch(good, walk), want, "afterwards")
        got = env.step_batch(good, return_state=True)
        assert_equal(got, serial.step_batch(good, walk[[0] * 16]), "the rows go on")


def test_rows_that_take_long_are_no_hang(serial, walk):
    # 12 rows of 0.3 s on two workers: far longer than the limit, which is for one row.
    actions = np.zeros(16, int)
    actions[:12] = toy_envs.SLOW
    with parallel(1.0, n_workers=2) as env:
        before = pids(env)
        got = env.step_batch(actions, walk)
        assert_equal(got, serial.step_batch(np.zeros(16, int), walk), "slow rows")
        assert replaced(env, before) == []


def test_limit_can_be_left_out(walk):
    with parallel(None, n_workers=1) as env:
        pending = env.step_batch_async([toy_envs.SLOW], walk[:1])
        assert not pending.poll(0.05)
        assert pending.wait().rewards.tolist() == [1.0]


def test_hang_in_one_of_two_batches_is_not_held_against_the_other(serial, walk):
    with parallel(0.4, n_workers=2) as env:
        before = pids(env)
        hanging = env.step_batch_async([0, toy_envs.SLEEP, 0, 0], walk[:4])
        good = env.step_batch_async([0] * 16, walk)
        assert_equal(good.wait(), serial.step_batch([0] * 16, walk), "the innocent batch")
        with pytest.raises(WorkerTimeout, match=r"at row 1, action 12"):
            hanging.wait()
        assert len(replaced(env, before)) == 1


def test_hang_in_a_dropped_batch_does_not_stop_the_next(serial, walk):
    with parallel(0.4, n_workers=1) as env:
        dropped = env.step_batch_async([0, toy_envs.SLEEP], walk[:2])
        del dropped
        assert_equal(env.step_batch([0] * 16, walk), serial.step_batch([0] * 16, walk), "next")


@pytest.mark.parametrize("n_workers", [1, 2])
def test_stopped_worker_is_replaced(n_workers, serial, walk):
    with parallel(0.5, n_workers=n_workers) as env:
        before = pids(env)
        env.step_batch([0] * 16, walk)
        stop(before[0])
        with pytest.raises(WorkerTimeout, match=r"worker 0 .*\n?It gave no stack") as caught:
            env.step_batch([0] * 16, walk)
        assert caught.value.workers == (0,)
        assert replaced(env, before) == [0]
        assert_equal(env.step_batch([0] * 16, walk), serial.step_batch([0] * 16, walk), "after")


def test_close_while_workers_are_stuck():
    # The number: two seconds in every state, for any number of workers.
    env = parallel(None, n_workers=4, stubborn=True)
    env.reset(seed=0)
    found = pids(env)
    for k, worker in enumerate(env.batch_env):
        worker.reset(seed=0)
        if k == 3:
            stop(found[k])
        else:
            worker.step((toy_envs.SLEEP, toy_envs.NATIVE)[k % 2], blocking=False)
    begun = time.monotonic()
    env.close()
    assert within(time.monotonic() - begun, 2.0)
    assert not any(map(leaks.is_running, found))


# Promises ---------------------------------------------------------------------------


@pytest.mark.parametrize("action", [toy_envs.SLEEP, toy_envs.NATIVE], ids=["sleep", "native"])
def test_promise_with_a_time_limit(action, walk):
    with ExternalProcess(Faulty, index=2) as process:
        process.describe()
        pid = process.process.pid
        promise = process.step(action, walk[0], blocking=False)
        later = process.step(0, walk[0], blocking=False)
        for _ in range(2):
            with pytest.raises(WorkerTimeout, match=rf"worker 2 \(pid {pid}\).*within 0\.3 s") as e:
                promise(timeout=0.3)
        assert e.value.workers == (2,)
        assert "_fault" in str(e.value)
        for ask in (later, lambda: process.step(0)):
            with pytest.raises(WorkerDied, match=r"was stopped.*Call restart\(\)"):
                ask()
        process.restart()
        assert process.step(0, walk[0]).reward == 1.0


def test_promise_that_is_kept_in_time(walk):
    with ExternalProcess(Faulty) as process:
        promise = process.step(toy_envs.SLOW, walk[0], blocking=False)
        assert promise(timeout=30.0).reward == 1.0
        assert promise(timeout=0.0).reward == 1.0


def slow_elsewhere(pid):
    if os.getpid() != pid:
        time.sleep(1.5)
    return Faulty()


def in_parallel(timeout):
    return ParallelEnv(slow_elsewhere, pid=os.getpid(), n_workers=2, timeout=timeout)


def as_vector(timeout):
    make = functools.partial(slow_elsewhere, os.getpid())
    return plangym_ext.make_vec([make] * 2, n_workers=2, timeout=timeout)


@pytest.mark.parametrize("make", [in_parallel, as_vector])
def test_building_an_env_may_take_as_long_as_a_row(make, monkeypatch):
    monkeypatch.setattr(worker_handle, "START_TIMEOUT", 0.3)
    monkeypatch.setattr(limits, "START_TIMEOUT", 0.3)
    with pytest.raises(WorkerTimeout, match=r"did not answer 'start' within 0\.4 s"):
        make(0.4)
    for timeout in (60.0, None):
        with make(timeout) as env:
            env.reset(seed=0)


def test_a_worker_that_is_built_again_may_take_as_long(monkeypatch):
    with in_parallel(60.0) as env:
        monkeypatch.setattr(worker_handle, "START_TIMEOUT", 0.3)
        monkeypatch.setattr(limits, "START_TIMEOUT", 0.3)
        state, *_ = env.reset(seed=0)
        for pid in pids(env):
            os.kill(pid, signal.SIGKILL)
        assert env.step_batch(np.zeros(4, int), np.stack([state] * 4)).rewards.shape == (4,)


class Loading(gym.Env):
    """Loads in its first step, is slow in the third, and hangs in the fifth."""

    observation_space = gym.spaces.Box(0, 99, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        time.sleep({1: 3.0, 3: 1.2, 4: 2.5, 5: 600.0}.get(self.steps, 0.0))
        return np.float32([self.steps]), 1.0, False, False, {}


@pytest.mark.parametrize("kind", ["batch", "vector"])
def test_the_default_waits_longer_for_first_rows_and_slow_envs(monkeypatch, kind):
    # As of 30 and 120 seconds.
    monkeypatch.setattr(limits, "ROW_TIMEOUT", 2.0)
    monkeypatch.setattr(limits, "START_TIMEOUT", 40.0)
    actions = np.zeros(1, np.int64)
    options = {"n_workers": 1, "timeout": 2.0, "capture": "off" if kind == "vector" else "auto"}
    if kind == "vector":
        made = plangym_ext.make_vec(Loading, 1, **options)
    else:
        made = ParallelEnv(Loading, n_workers=1, timeout=2.0, check=False)
    with made as env:
        env.reset(seed=0)
        step = env.step if kind == "vector" else env.step_batch
        for _ in range(4):
            step(actions)
        began = time.monotonic()
        with pytest.raises(WorkerTimeout, match="did not answer"):
            step(actions)
        took = time.monotonic() - began
        assert took > 2.0
        assert within(took, 30)


def test_a_limit_below_the_default_is_taken_at_its_word():
    limit = limits.row_limit
    assert limit(None, first=True) is None
    assert limit(5.0, first=True, slowest=60.0, steps=1000) == 5.0
    assert [limit(30.0, first=first) for first in (True, False)] == [120.0, 30.0]
    assert limit(30.0, first=False, slowest=25.0) == 75.0
    assert limit(60.0, first=False, steps=1000) == 2000.0

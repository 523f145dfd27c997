"""Envs in a forked child: what has workers is refused there, what has none goes on."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import traceback

import leaks
import numpy as np
import pytest

import plangym_ext
from plangym_ext.errors import InheritedEnv

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    # Python 3.12 and later warn of any fork of a process with threads.
    pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning"),
]


def in_fork(call):
    """What a call returns in a forked child, as text: ends with ", done"."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            text = f"{call()}, done"
        except BaseException:
            text = traceback.format_exc()
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        text = file.read()
    os.waitpid(pid, 0)
    assert text.endswith(", done"), text
    return text


def refused(call):
    with pytest.raises(InheritedEnv, match=rf"belongs to process {os.getppid()}, .*worker_init_fn"):
        call()
    return True


def test_a_batch_env_is_refused_in_a_child_and_goes_on_in_the_parent():
    with plangym_ext.make("CartPole-v1", n_workers=2, backend="process") as env:
        states = np.stack([env.reset(seed=i)[0] for i in range(8)])
        actions = np.zeros(8, int)
        wanted = env.step_batch(actions, states).obs
        pids = [worker.process.pid for worker in env.batch_env]

        def child():
            calls = [
                lambda: env.step_batch(actions, states),
                lambda: env.reset(seed=0),
                lambda: env.batch_env.step_batch(actions, states),
                lambda: env.batch_env[0].reset(),
                lambda: env.batch_env[0].name,
            ]
            found = all(refused(call) for call in calls)
            env.close()
            env.close()
            return found

        assert in_fork(child) == "True, done"
        assert [worker.process.pid for worker in env.batch_env] == pids
        assert all(map(leaks.is_running, pids))
        for _ in range(3):
            np.testing.assert_array_equal(env.step_batch(actions, states).obs, wanted)


def test_a_vector_env_is_refused_in_a_child_and_goes_on_in_the_parent():
    def results(envs, steps):
        return [envs.step(np.full(4, i % 2))[0] for i in range(steps)]

    with plangym_ext.make_vec("CartPole-v1", 4, backend="serial") as plain:
        plain.reset(seed=1)
        wanted = results(plain, 8)
        with plangym_ext.make_vec("CartPole-v1", 4, n_workers=2, backend="process") as envs:
            envs.reset(seed=1)
            found = results(envs, 4)

            def child():
                calls = (lambda: envs.step([0] * 4), lambda: envs.reset(), envs.get_states)
                return all(refused(call) for call in calls), envs.close()

            assert in_fork(child) == "(True, None), done"
            found += results(envs, 4)
    np.testing.assert_array_equal(found, wanted)


def test_forgetting_a_copy_in_a_child_ends_no_workers():
    holder = [plangym_ext.make("CartPole-v1", n_workers=1, backend="process")]
    pid = holder[0].batch_env[0].process.pid

    def child():
        holder.clear()
        gc.collect()

    assert in_fork(child) == "None, done"
    assert leaks.is_running(pid)
    holder[0].reset(seed=0)
    holder[0].close()


def test_a_batch_in_flight_is_the_parents():
    with plangym_ext.make("CartPole-v1", n_workers=2, backend="process") as env:
        states = np.stack([env.reset(seed=i)[0] for i in range(64)])
        actions = np.zeros(64, int)
        wanted = env.step_batch(actions, states).obs
        pending = env.step_batch_async(actions, states)
        assert in_fork(lambda: (refused(pending.wait), env.close())) == "(True, None), done"
        np.testing.assert_array_equal(pending.wait().obs, wanted)


def test_a_child_makes_envs_of_its_own():
    def child():
        with plangym_ext.make("CartPole-v1", n_workers=1, backend="process") as env:
            state, *_ = env.reset(seed=0)
            return len(env.step_batch([0, 1], np.stack([state] * 2)).obs)

    with plangym_ext.make("CartPole-v1", n_workers=1, backend="process"):
        assert in_fork(child) == "2, done"


@pytest.mark.parametrize(
    ("name", "backend"),
    [("CartPole-v1", "serial"), ("CartPole-v1", "kernel"), ("HalfCheetah-v5", "mujoco")],
)
def test_backends_without_workers_go_on_in_both(name, backend):
    options = {} if backend == "serial" else {"threads": 2}
    try:
        env = plangym_ext.make(name, backend=backend, **options)
    except (plangym_ext.errors.BackendUnavailable, plangym_ext.errors.MissingExtra) as error:
        pytest.skip(str(error))
    with env:
        states = np.stack([env.reset(seed=i)[0] for i in range(16)])
        actions = np.stack([env.action_space.sample() * 0 for _ in range(16)])
        wanted = env.step_batch(actions, states).obs
        digest = wanted.tobytes().hex()

        def child():
            found = [env.step_batch(actions, states).obs.tobytes().hex() for _ in range(2)]
            env.close()
            return found == [digest] * 2

        assert in_fork(child) == "True, done"
        np.testing.assert_array_equal(env.step_batch(actions, states).obs, wanted)


_ORPHANS = """
import os, signal, sys, time
import plangym_ext
env = plangym_ext.make("CartPole-v1", n_workers=2, backend="process")
envs = plangym_ext.make_vec("CartPole-v1", 2, n_workers=2, backend="process")
pids = [worker.process.pid for worker in env.batch_env] + list(envs.worker_pids)
child = os.fork()
if child == 0:
    time.sleep(60)
    os._exit(0)
print(child, *pids, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_no_worker_outlives_a_killed_parent_for_a_child_that_lives_on():
    command = [sys.executable, "-c", textwrap.dedent(_ORPHANS)]
    # The child keeps the pipe open, so it is not read to its end.
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        child, *pids = map(int, parent.stdout.readline().split())
        parent.wait(timeout=300)
    try:
        assert leaks.is_running(child)
        assert leaks.wait_until(lambda: not any(map(leaks.is_running, pids)), 10.0)
        assert len(pids) == 4
    finally:
        os.kill(child, 9)


# As torch does of two workers on one processor.
@pytest.mark.filterwarnings("ignore:This DataLoader will create 2 worker processes")
def test_workers_of_a_data_loader_get_one_clear_error():
    data = pytest.importorskip("torch.utils.data")

    class Steps(data.Dataset):
        def __init__(self):
            self.env = plangym_ext.make("CartPole-v1", n_workers=2, backend="process")
            self.states = np.stack([self.env.reset(seed=i)[0] for i in range(20)])

        def __len__(self):
            return 20

        def __getitem__(self, i):
            return self.env.step_batch(np.array([0]), self.states[i : i + 1]).obs[0]

    steps = Steps()
    with steps.env:
        wanted = np.stack([steps[i] for i in range(20)])
        rows = iter(data.DataLoader(steps, batch_size=None, num_workers=2, timeout=60))
        with pytest.raises(InheritedEnv, match="in worker_init_fn"):
            next(rows)
        rows._shutdown_workers()
        np.testing.assert_array_equal(np.stack([steps[i] for i in range(20)]), wanted)

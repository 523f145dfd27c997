"""Starting, closing, forgetting, and parents that end: nothing is ever left."""

import functools
import gc
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import leaks
import numpy as np
import pytest
import toy_envs
from clock_bounds import within
from toy_envs import Faulty

import plangym_ext
from plangym_ext.errors import EnvClosed
from plangym_ext.workers.batch_env import BatchEnv, ExternalProcess
from plangym_ext.workers.parallel_env import ParallelEnv

pytestmark = pytest.mark.slow  # every test starts processes

TESTS = str(Path(toy_envs.__file__).parent)


def script(text, tmp_path, **options):
    """Start a Python script of its own, away from the checkout."""
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(text))
    return subprocess.Popen(
        [sys.executable, "-W", "error", str(path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": TESTS},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def run_script(text, tmp_path):
    """Output of a script that has to succeed without a word on stderr."""
    process = script(text, tmp_path)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "")
    return out


def pids(env):
    return [worker.process.pid for worker in env.batch_env]


# Scripts --------------------------------------------------------------------------


def test_ten_line_script_without_main_guard(tmp_path):
    out = run_script(
        """
        import numpy as np
        import plangym_ext

        env = plangym_ext.make("CartPole-v1", n_workers=2)
        state, obs, info = env.reset(seed=0)
        states = np.stack([state] * 8)
        result = env.step_batch([0, 1] * 4, states)
        print(result.rewards.sum(), result.states.shape[0])
        env.close()
        """,
        tmp_path,
    )
    assert out == "8.0 8\n"


def test_script_that_never_closes_ends_by_itself(tmp_path):
    out = run_script(
        """
        import plangym_ext

        env = plangym_ext.make("CartPole-v1", n_workers=2)
        env.reset(seed=0)
        env.step_batch([0, 1])
        print(*[worker.process.pid for worker in env.batch_env])
        """,
        tmp_path,
    )
    assert not any(leaks.is_running(int(pid)) for pid in out.split())


def test_env_registered_in_the_script_alone_is_found_by_its_workers(tmp_path):
    out = run_script(
        """
        import gymnasium as gym
        import toy_envs
        from gymnasium.envs.classic_control import CartPoleEnv

        class Doubled(CartPoleEnv):
            def step(self, action):
                obs, reward, *rest = super().step(action)
                return obs, 2 * reward, *rest

        class OddError(Exception):
            pass

        class Raising(toy_envs.Faulty):
            def step(self, action):
                if action == toy_envs.RAISE:
                    raise OddError("from the script")
                return super().step(action)

        gym.register("Doubled-v0", Doubled, max_episode_steps=5)
        gym.register("Raising-v0", Raising)

        import plangym_ext

        with plangym_ext.make("Doubled-v0", n_workers=2) as env:
            env.reset(seed=0)
            print(env.step_batch([0, 1, 0]).rewards)
        with plangym_ext.make("Raising-v0", n_workers=2) as env:
            env.reset(seed=0)
            try:
                env.step_batch([0, toy_envs.RAISE])
            except OddError as error:
                print(error)
        """,
        tmp_path,
    )
    assert out == "[2. 2. 2.]\nfrom the script\n"


def test_forked_child_that_ends_leaves_the_parents_workers_alone(tmp_path):
    out = run_script(
        """
        import os, sys
        import plangym_ext

        env = plangym_ext.make("CartPole-v1", n_workers=1)
        env.reset(seed=0)
        before = env.step_batch([0, 1]).rewards.sum()
        worker = env.batch_env[0].process.pid
        if os.fork() == 0:
            sys.exit(0)  # runs the exit handlers that it has inherited
        os.wait()
        env.step_batch([0, 1])
        print(worker == env.batch_env[0].process.pid)
        env.close()
        """,
        tmp_path,
    )
    assert out == "True\n"


# Parents that end -----------------------------------------------------------------

BUSY = {
    "idle": "pass",
    "starting": "env.batch_env[0].restart()",
    "python": "env.batch_env[0].step(toy_envs.SLEEP, blocking=False)",
    "native": "env.batch_env[0].step(toy_envs.NATIVE, blocking=False)",
}


@pytest.mark.parametrize("busy", list(BUSY))
def test_sigkill_of_the_parent_leaves_no_worker(busy, tmp_path):
    parent = script(
        f"""
        import functools, sys, time
        import toy_envs
        from plangym_ext import ParallelEnv

        env = ParallelEnv(functools.partial(toy_envs.Faulty, child=True), n_workers=2)
        env.reset(seed=0)
        env.step_batch([0, 1])
        children = [worker.child_pid for worker in env.batch_env]
        for worker in env.batch_env:
            worker.reset(seed=0)
        {BUSY[busy]}
        print(*[worker.process.pid for worker in env.batch_env], *children, flush=True)
        time.sleep(300)
        """,
        tmp_path,
    )
    with parent:
        found = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(found) == 4
        assert leaks.is_running(found[1])
        parent.kill()
        parent.wait()
        # The issue's own number: none after one second.
        killed = time.monotonic()
        gone = leaks.wait_until(lambda: not any(map(leaks.is_running, found[:2])))
        assert gone, "workers outlived their parent"
        assert within(time.monotonic() - killed, 1.0)
        if busy != "starting":
            assert leaks.wait_until(lambda: not any(map(leaks.is_running, found[2:])))


def test_interrupt_ends_with_one_traceback_and_nothing_left(tmp_path):
    parent = script(
        """
        import toy_envs
        from plangym_ext import ParallelEnv

        env = ParallelEnv(toy_envs.Faulty, n_workers=2)
        env.reset(seed=0)
        print(*[worker.process.pid for worker in env.batch_env], flush=True)
        while True:
            env.step_batch([toy_envs.SLOW] * 4)
        """,
        tmp_path,
        start_new_session=True,
    )
    found = [int(pid) for pid in parent.stdout.readline().split()]
    # What a terminal does: the signal goes to the whole foreground group.
    os.killpg(parent.pid, signal.SIGINT)
    _, err = parent.communicate(timeout=300)
    assert parent.returncode == -signal.SIGINT
    assert err.count("Traceback (most recent call last)") == 1
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert leaks.wait_until(lambda: not any(map(leaks.is_running, found)))


# Closing --------------------------------------------------------------------------


def test_close_ends_the_workers_and_can_be_repeated():
    env = ParallelEnv(Faulty, n_workers=2)
    found = pids(env)
    for _ in range(3):
        env.close()
    assert not any(map(leaks.is_running, found))


@pytest.mark.parametrize("call", ["reset", "step", "step_batch", "rollout", "state", "setup"])
@pytest.mark.parametrize("n_workers", [None, 1])
def test_use_after_close_is_refused(call, n_workers):
    env = plangym_ext.make("CartPole-v1", n_workers=n_workers)
    state, *_ = env.reset(seed=0)
    env.close()
    calls = {
        "reset": lambda: env.reset(),
        "step": lambda: env.step(0),
        "step_batch": lambda: env.step_batch([0], state[None]),
        "rollout": lambda: env.rollout_batch([[0]], state[None]),
        "state": lambda: env.set_state(state),
        "setup": lambda: env.get_state(),
    }
    named = {"rollout": "step_batch", "state": "set_state", "setup": "get_state"}.get(call, call)
    with pytest.raises(EnvClosed, match=rf"^{named}: .* closed\. Make a new one"):
        calls[call]()


@pytest.mark.parametrize("options", [{}, {"backend": "serial"}, {"n_workers": 1}], ids=str)
def test_rows_of_a_closed_env_that_was_never_reset_are_of_a_closed_env(options):
    env = plangym_ext.make("CartPole-v1", **options)
    env.close()
    for call in (env.step_batch, env.step_batch_async):
        with pytest.raises(EnvClosed, match=r"^step_batch: .* closed\. Make a new one"):
            call([0])


def test_process_refuses_use_after_close():
    process = ExternalProcess(Faulty, index=6)
    process.describe()
    process.close()
    process.close()
    for call in (lambda: process.step(0), lambda: process.call("reset"), process.restart):
        with pytest.raises(EnvClosed, match="worker 6"):
            call()


def test_close_with_a_dead_worker():
    env = ParallelEnv(Faulty, n_workers=2)
    os.kill(pids(env)[0], signal.SIGKILL)
    env.close()


@pytest.mark.parametrize("action", [toy_envs.SLOW, toy_envs.NATIVE])
def test_close_while_a_worker_is_busy(action):
    process = ExternalProcess(Faulty)
    process.reset(seed=0)
    process.step(action, blocking=False)
    pid = process.process.pid
    process.close()
    assert not leaks.is_running(pid)


def test_close_while_a_worker_reads_nothing():
    # More requests than the socket holds, at a worker that never comes back.
    process = ExternalProcess(Faulty)
    process.reset(seed=0)
    process.step(toy_envs.NATIVE, blocking=False)
    while select_writable(process):
        process.call("get_state")
    process.close()


def select_writable(process):
    import select

    return bool(select.select([], [process.process.channel], [], 0)[1])


def test_process_that_is_closed_before_it_is_ready():
    process = ExternalProcess(Faulty)
    process.build()
    process.close()
    with pytest.raises(EnvClosed, match="worker 0"):
        process.describe()


@pytest.mark.parametrize("used", [False, True])
def test_forgotten_env_takes_its_workers_and_memory_along(used):
    # That no descriptor or memory stays is what the leak check of every test sees.
    env = ParallelEnv(Faulty, n_workers=2)
    found = pids(env)
    if used:
        env.reset(seed=0)
        env.step_batch([0, 1])
    del env
    gc.collect()
    assert leaks.wait_until(lambda: not any(map(leaks.is_running, found)))


def test_forgotten_promise_does_not_keep_the_process():
    process = ExternalProcess(Faulty)
    process.reset(seed=0, blocking=False)
    pid = process.process.pid
    del process
    gc.collect()
    assert leaks.wait_until(lambda: not leaks.is_running(pid))


def test_workers_that_are_restarted_leave_nothing():
    with ExternalProcess(Faulty) as process:
        for _ in range(2):
            process.restart()
            process.reset(seed=0)


def test_many_open_files_in_the_parent_do_not_matter():
    # Descriptors beyond 1,023 are more than select() can wait for.
    fillers = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        with ParallelEnv(Faulty, n_workers=1) as env:
            assert env.batch_env[0].process.channel.fileno() > 1023
            env.reset(seed=0)
            assert env.step_batch([0, 1]).rewards.tolist() == [1.0, 1.0]
            assert env.batch_env[0].reset(seed=0)[0].shape == (4,)
    finally:
        for fd in fillers:
            os.close(fd)


# Constructors ---------------------------------------------------------------------


def _local_class():
    class Local(Faulty):
        pass

    return Local


@pytest.mark.parametrize(
    "constructor",
    [
        lambda: Faulty(),
        _local_class(),
        functools.partial(Faulty, sutton_barto_reward=True),
        Faulty,
        toy_envs.faulty_env,
    ],
    ids=["lambda", "local-class", "partial", "class", "plan-env"],
)
def test_constructor_of_any_kind_travels(constructor):
    with ExternalProcess(constructor) as process:
        obs, _ = process.reset(seed=0)
        assert obs.shape == (4,)


def test_constructor_that_cannot_travel_is_named_before_anything_starts():
    import threading

    lock = threading.Lock()

    def with_lock():
        return lock and Faulty()

    with pytest.raises(TypeError, match=r"worker 1: constructor <function .*with_lock.*lock"):
        ExternalProcess(with_lock, index=1)
    with pytest.raises(TypeError, match=r"constructor must be a callable.*got 'CartPole-v1'"):
        ExternalProcess("CartPole-v1")


def test_constructor_of_something_else_is_refused():
    with pytest.raises(
        TypeError, match=r"gymnasium.Env or a plangym_ext GymEnv; got builtins.dict"
    ):
        ExternalProcess(dict).describe()


def test_setup_can_be_delayed():
    before = leaks.children()
    env = ParallelEnv(Faulty, n_workers=1, delay_setup=True)
    assert leaks.children() == before
    env.setup()
    env.setup()
    assert len(leaks.children() - before) == 1
    env.close()
    unused = ParallelEnv(Faulty, delay_setup=True)
    unused.close()
    with pytest.raises(EnvClosed):
        unused.setup()


@pytest.mark.parametrize("n_workers", [0, -1, 1.0, True, "2"])
def test_number_of_workers_is_checked(n_workers):
    with pytest.raises(ValueError, match=f"n_workers must be an integer >= 1; got {n_workers!r}"):
        ParallelEnv(Faulty, n_workers=n_workers)


# What workers import, and what may go on beside them --------------------------------


def test_worker_imports_neither_numba_nor_torch(tmp_path):
    # In a process of its own: where a worker has needed torch, those after it have it from the
    # start.
    out = run_script(
        """
        import toy_envs
        from plangym_ext.workers.batch_env import ExternalProcess

        if __name__ == "__main__":
            with ExternalProcess(toy_envs.Faulty) as process:
                process.reset(seed=0)
                print(*process.imported_modules)
        """,
        tmp_path,
    )
    modules = set(out.split())
    assert "gymnasium" in modules
    assert not modules & {"numba", "torch", "mujoco", "ale_py", "pygame", "ray"}
    # Only constructors, errors and attributes that need it bring it in.
    assert "cloudpickle" not in modules


def test_threads_and_kernels_in_the_parent_do_not_disturb_workers(tmp_path):
    out = run_script(
        """
        import threading
        import numba
        import numpy as np

        @numba.njit(parallel=True)
        def total(x):
            found = 0.0
            for i in numba.prange(x.size):
                found += x[i]
            return found

        assert total(np.ones(100_000)) == 100_000
        stop = threading.Event()
        thread = threading.Thread(target=stop.wait)
        thread.start()

        import plangym_ext

        env = plangym_ext.make("CartPole-v1", n_workers=2)
        env.reset(seed=0)
        print(env.step_batch([0, 1]).rewards)
        assert total(np.ones(100_000)) == 100_000
        env.close()
        stop.set()
        """,
        tmp_path,
    )
    assert out == "[1. 1.]\n"


def test_torch_in_the_parent_does_not_disturb_workers(tmp_path):
    pytest.importorskip("torch")
    out = run_script(
        """
        import torch

        weights = torch.ones(256, 256, requires_grad=True)
        (weights @ weights).sum().backward()  # starts torch's threads

        import plangym_ext

        env = plangym_ext.make("CartPole-v1", n_workers=2)
        env.reset(seed=0)
        print(env.step_batch([0, 1]).rewards)
        assert (weights @ weights).sum().item() == 256.0**3
        env.close()
        """,
        tmp_path,
    )
    assert out == "[1. 1.]\n"


def test_opengl_in_the_parent_does_not_disturb_workers(tmp_path):
    out = run_script(
        """
        import os

        os.environ.setdefault("MUJOCO_GL", "egl")
        import gymnasium

        drawn = gymnasium.make("InvertedPendulum-v5", render_mode="rgb_array")
        drawn.reset(seed=0)
        try:
            before = drawn.render()
        except Exception as error:
            print("no OpenGL:", error)
            raise SystemExit(0)

        import plangym_ext

        env = plangym_ext.make("InvertedPendulum-v5", n_workers=2)
        env.reset(seed=0)
        print(env.step_batch([[0.0], [0.0]]).rewards)
        assert (drawn.render() == before).all()
        env.close()
        drawn.close()
        """,
        tmp_path,
    )
    if out.startswith("no OpenGL"):
        pytest.skip(out)
    assert out == "[1. 1.]\n"


def test_batch_env_of_processes_is_closed_with_them():
    processes = [ExternalProcess(Faulty, index=i) for i in range(2)]
    env = BatchEnv(processes)
    found = [process.process.pid for process in processes]
    env.reset(seed=0)
    assert env.step_batch(np.array([0, 1])).rewards.tolist() == [1.0, 1.0]
    env.close()
    env.close()
    assert not any(map(leaks.is_running, found))


@pytest.mark.parametrize("way", ["forked", "started"])
@pytest.mark.parametrize("closed", [(1,), (2,), (0, 1, 2)])
def test_a_parent_whose_input_or_output_is_closed(closed, way, tmp_path):
    path, told = tmp_path / "script.py", tmp_path / "told.txt"
    path.write_text(
        textwrap.dedent(
            f"""
            import os

            for fd in {closed}:
                os.close(fd)
            import plangym_ext
            from plangym_ext.workers.processes import fork_server

            if "{way}" == "started":
                fork_server.available = lambda: False
            from toy_envs import Loud

            with plangym_ext.ParallelEnv(Loud, n_workers=2) as env:
                env.reset(seed=0)
                rewards = env.step_batch([1] * 8).rewards
            with open({str(told)!r}, "w") as file:
                print(rewards.sum(), file=file)
            """
        )
    )
    done = subprocess.run(
        [sys.executable, str(path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([TESTS, *sys.path])},
        timeout=300,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert told.read_text() == "8.0\n"

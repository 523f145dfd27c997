"""Ways in which a worker ends, or does not, that are easily told wrongly."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import subprocess
import sys
import textwrap

import gymnasium as gym
import leaks
import numpy as np
import pytest
import toy_envs

import plangym_ext
from plangym_ext.errors import StorageError, WorkerDied, WorkerError
from plangym_ext.workers import channel
from plangym_ext.workers.batch_env import ExternalProcess
from plangym_ext.workers.processes import fork_server

pytestmark = pytest.mark.slow


class Leaving(gym.Env):
    """Calls sys.exit in a step of action 2, or when it is made."""

    observation_space = gym.spaces.Box(0, 9, (1,), np.float32)
    action_space = toy_envs.Tame(3)  # whose samples are 0 and 1

    def __init__(self, at_once=False):
        if at_once:
            sys.exit("no licence")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        if action == 2:
            sys.exit("the simulator gave up")
        self.t += 1
        return np.full(1, self.t % 10, np.float32), 1.0, False, False, {}


def test_sys_exit_of_an_env_is_an_error_of_the_env():
    with plangym_ext.make_vec(Leaving, 2, n_workers=2) as venv:
        venv.reset(seed=0)
        pids = venv.worker_pids
        with pytest.raises(WorkerError, match=r"sys\.exit\('the simulator gave up'\)") as caught:
            venv.step(np.array([0, 2]))
        assert "in step" in str(caught.value.__cause__), "the worker's traceback"
        assert venv.step(np.zeros(2, int))[0][:, 0].tolist() == [1, 1]
        assert venv.worker_pids == pids


def test_sys_exit_in_a_batch_names_the_row():
    with plangym_ext.ParallelEnv(Leaving, n_workers=2) as env:
        state, *_ = env.reset(seed=0)
        with pytest.raises(WorkerError, match=r"sys\.exit\('the simulator gave up'\)") as caught:
            env.step_batch([0, 0, 2, 0], [state] * 4)
        assert any("row 2, action" in note for note in caught.value.__notes__)
        assert env.step_batch([0] * 4, [state] * 4).obs[:, 0].tolist() == [1] * 4


def test_sys_exit_of_a_constructor_is_told():
    with pytest.raises(WorkerError, match=r"sys\.exit\('no licence'\)"):
        ExternalProcess(lambda: Leaving(at_once=True)).describe()


def test_every_constructor_that_fails_is_told():
    def fails(text):
        def make():
            raise ValueError(text)

        return make

    with pytest.raises(ValueError, match="first") as caught:
        plangym_ext.make_vec([fails("first"), Leaving, fails("third")], n_workers=3)
    assert any("third" in note for note in caught.value.__notes__)


def test_memory_is_suggested_where_it_may_be_the_reason():
    for sign, suggested in ((signal.SIGKILL, True), (signal.SIGSEGV, False)):
        with ExternalProcess(Leaving) as process:
            process.describe()
            os.kill(process.process.pid, sign)
            with pytest.raises(WorkerDied, match=sign.name) as caught:
                process.reset(seed=0)
            assert ("memory" in str(caught.value)) == suggested


@pytest.mark.parametrize("forked", [True, False])
def test_a_process_that_ignores_its_children_says_what_it_knows(forked, monkeypatch):
    if not forked:  # the server reaps its workers itself
        monkeypatch.setattr(fork_server, "available", lambda: False)
    elif not fork_server.available():
        pytest.skip("there is no fork server")
    known, status = ("killed by SIGKILL", -9) if forked else ("ignores SIGCHLD", None)
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with ExternalProcess(Leaving) as process:
            process.describe()
            os.kill(process.process.pid, signal.SIGKILL)
            with pytest.raises(WorkerDied, match=known) as caught:
                process.reset(seed=0)
            assert caught.value.exit_status == status
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_workers_start_where_the_current_folder_is_gone(tmp_path, monkeypatch):
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend("")
    folder.rmdir()
    with ExternalProcess(Leaving) as process:
        process.reset(seed=0)


def test_no_room_for_any_worker_is_said(monkeypatch):
    monkeypatch.setattr(channel, "_limit", lambda: 30)
    with pytest.raises(StorageError, match="There is room for none"):
        channel.check_descriptors(40)


@pytest.mark.parametrize("act", [pickle.dumps, copy.deepcopy], ids=["pickle", "copy"])
def test_handles_say_that_they_cannot_be_pickled(act):
    with plangym_ext.make_vec(Leaving, 1) as venv, pytest.raises(TypeError, match="cannot be pick"):
        act(venv)


def test_a_busy_env_that_handles_sigio_ends_with_its_parent(tmp_path):
    # SIGIO is what the end of the lifeline would send if nothing else were asked for.
    busy = tmp_path / "busy"
    (tmp_path / "main.py").write_text(
        textwrap.dedent(
            """
            import pathlib, signal, time
            import toy_envs
            from plangym_ext.workers.batch_env import ExternalProcess

            class Deaf(toy_envs.Faulty):
                def step(self, action):
                    if action != toy_envs.SLEEP:
                        return super().step(action)
                    signal.signal(signal.SIGIO, signal.SIG_IGN)
                    pathlib.Path(BUSY).touch()
                    while True:
                        pass

            process = ExternalProcess(Deaf)
            process.reset(seed=0)
            process.step(toy_envs.SLEEP, blocking=False)
            print(process.process.pid, flush=True)
            time.sleep(300)
            """
        ).replace("BUSY", repr(str(busy)))
    )
    path = os.pathsep.join(filter(None, sys.path))
    parent = subprocess.Popen(
        [sys.executable, str(tmp_path / "main.py")],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    with parent:
        try:
            pid = int(parent.stdout.readline())
            assert leaks.wait_until(busy.exists)
            assert leaks.is_running(pid)
        finally:
            parent.kill()
        parent.wait()
        assert leaks.wait_until(lambda: not leaks.is_running(pid))

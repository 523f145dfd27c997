"""The server that workers are forked of: what they share, and what each has for itself."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys

import gymnasium as gym
import leaks
import numpy as np
import pytest
import toy_envs
from batches import stop

import plangym_ext
from plangym_ext.workers.processes import fork_server
from plangym_ext.workers.protocol import ExitStatus, Service
from plangym_ext.workers.worker_handle import WorkerHandle

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not fork_server.available(), reason="needs a fork server"),
]


class Probe(gym.Env):
    """Tells what its process is like."""

    observation_space = gym.spaces.Box(0, 1, (1,))
    action_space = toy_envs.Tame(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 0.0, False, False, {}

    def parent(self):
        return os.getppid()

    def drawn(self):
        return random.random(), float(np.random.random())  # noqa: NPY002 - as old envs do

    def around(self):
        mask = os.umask(0)
        os.umask(mask)
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        return os.environ.get("PROBE"), os.getcwd(), mask, limits

    def say(self, text):
        print(text, flush=True)
        os.write(2, text.encode())


def probes(num_envs=2, n_workers=2):
    return plangym_ext.make_vec(Probe, num_envs, n_workers=n_workers, capture="off")


def test_workers_of_all_envs_are_forks_of_one_server():
    before = leaks.children()
    with probes() as venv, probes() as other:
        parents = {*venv.call("parent"), *other.call("parent")}
    with probes() as later:
        assert {*parents, *later.call("parent")} == {fork_server.current().pid}
    assert leaks.children() == before


def test_forks_draw_numbers_of_their_own():
    with probes() as venv, probes() as other:
        drawn = [*venv.call("drawn"), *other.call("drawn")]
    assert len({first for first, _ in drawn}) == len({second for _, second in drawn}) == 4


def test_a_worker_has_the_surroundings_of_its_start(monkeypatch, tmp_path):
    probes().close()
    monkeypatch.setenv("PROBE", "now")
    monkeypatch.chdir(tmp_path)
    with probes() as venv:
        assert venv.call("around")[1][:2] == ("now", str(tmp_path))


def test_limits_and_mask_are_those_of_the_start():
    probes().close()
    server = fork_server.current()
    mask, limits = os.umask(0o77), resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limits[0] - 1, limits[1]))
        with probes() as venv:
            assert {*venv.call("parent")} == {server.pid}
            assert venv.call("around")[0][2:] == (0o77, (limits[0] - 1, limits[1]))
    finally:
        os.umask(mask)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize("what", ["affinity", "variable"])
def test_what_is_read_when_a_process_starts_takes_another_server(what, monkeypatch):
    probes().close()
    before, processors = fork_server.current(), os.sched_getaffinity(0)
    if what == "affinity" and len(processors) < 2:
        pytest.skip("there is one processor")
    try:
        if what == "affinity":
            os.sched_setaffinity(0, {min(processors)})
        else:
            monkeypatch.setenv("OMP_NUM_THREADS", "7")
        with probes() as venv:
            assert {fork_server.current().pid} == {*venv.call("parent")} != {before.pid}
    finally:
        os.sched_setaffinity(0, processors)


def test_a_worker_writes_where_this_process_writes_now(capfd):
    with probes(1, 1) as venv:
        venv.call("say", "said by a worker")
    out, err = capfd.readouterr()
    assert out == "said by a worker\n"
    assert err == "said by a worker"


def test_how_a_worker_ended_is_told():
    with plangym_ext.make(Probe, n_workers=2) as env:
        first, second = (worker.process for worker in env.batch_env)
        os.kill(first.pid, signal.SIGKILL)
        assert "was killed by SIGKILL" in str(first.death("step"))
        second.begin_stop()
        assert "exited with status 0" in str(second.death("close"))


def test_workers_outlive_their_server():
    with probes() as venv:
        venv.reset(seed=0)
        server = fork_server.current()
        os.kill(server.pid, signal.SIGKILL)
        venv.step([0, 0])
        with probes() as other:  # of another server
            assert {*other.call("parent")} == {fork_server.current().pid} != {server.pid}
        pids = venv.worker_pids
    assert leaks.wait_until(lambda: not any(map(leaks.is_running, pids)))


def test_the_end_of_a_worker_without_server_is_seen_and_not_made_up():
    process, _ = fork_server.forked_worker({**os.environ}, _ends := _descriptors())
    for fd in _ends:
        os.close(fd)
    os.kill(fork_server.current().pid, signal.SIGKILL)
    assert process.wait() == process.poll() == fork_server.UNKNOWN_STATUS


def _descriptors():
    """Return a socket, a lifeline and no file; their other ends are closed."""
    import socket

    mine, theirs = socket.socketpair()
    mine.close()
    read, write = os.pipe()
    os.close(write)
    return theirs.detach(), read, os.memfd_create("stack")


def test_a_server_that_does_not_answer_is_given_up():
    probes(1, 1).close()
    server = fork_server.current()
    server._socket.settimeout(0.3)
    stop(server.pid)
    with probes(1, 1) as venv:
        assert venv.call("parent") != (server.pid,)
        assert not leaks.is_running(server.pid)


def test_a_fork_that_is_refused_is_quiet_and_the_worker_started_another_way(
    monkeypatch, tmp_path, capfd
):
    (tmp_path / "sitecustomize.py").write_text(
        "import errno, os\n"
        "def refused():\n"
        "    raise OSError(errno.EAGAIN, 'no more processes')\n"
        "os.fork = refused\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))  # takes another server
    with probes(1, 1) as venv:
        server = fork_server.current()
        assert venv.call("parent") == (os.getpid(),)
        venv.reset(seed=0)
        assert leaks.is_running(server.pid)  # and can be asked again
    assert capfd.readouterr() == ("", "")
    monkeypatch.undo()
    with probes(1, 1) as venv:
        assert venv.call("parent") == (fork_server.current().pid,) != (server.pid,)


def test_an_interrupted_request_does_not_disturb_the_next():
    probes(1, 1).close()
    server = fork_server.current()
    server._asked += 1  # as if its answer was not waited for
    number = server._asked
    server._socket.sendall(_request(number, ExitStatus(1, wait=False)))
    with probes() as venv:
        assert {*venv.call("parent")} == {server.pid}


def test_a_worker_that_ends_in_the_middle_of_a_request_is_not_asked_for():
    """As one does that the garbage collector finds there."""
    before = leaks.children()
    probes(1, 1).close()
    server = fork_server.current()
    kept, sent = _kept_ends()
    pid, _ = server.start({**os.environ}, sent)
    os.kill(pid, signal.SIGKILL)
    server._asking = True
    try:
        assert fork_server.ForkedProcess(server, pid).wait() == fork_server.UNKNOWN_STATUS
        with probes(1, 1) as venv:
            assert venv.call("parent") != (server.pid,)
    finally:
        server._asking = False
    assert leaks.children() > before  # nothing has reaped it
    assert server.status(os.getpid(), wait=False) == fork_server.UNKNOWN_STATUS
    assert leaks.children() == before
    for fd in (*kept, *sent):
        os.close(fd)


def _request(number, request):
    import pickle

    body = pickle.dumps((number, request))
    return fork_server.HEADER.pack(len(body)) + body


def test_an_idle_server_ends_and_a_busy_one_does_not():
    server = fork_server.ForkServer({**os.environ}, idle=0.2)
    ends = _kept_ends()
    pid, _ = server.start({**os.environ}, ends[1])
    os.write(2, b"")
    assert not leaks.wait_until(lambda: not leaks.is_running(server.pid), timeout=1.0)
    os.kill(pid, signal.SIGKILL)
    assert server.status(pid, wait=True) == -signal.SIGKILL
    assert leaks.wait_until(lambda: not leaks.is_running(server.pid))
    for fd in (*ends[0], *ends[1]):
        os.close(fd)
    server.close()


def _kept_ends():
    import socket

    mine, theirs = socket.socketpair()
    read, write = os.pipe()
    return (mine.detach(), write), (theirs.detach(), read, os.memfd_create("stack"))


def test_server_and_workers_end_with_this_process():
    program = (
        "import os, plangym_ext\n"
        "from plangym_ext.workers.processes import fork_server\n"
        "venv = plangym_ext.make_vec('CartPole-v1', 2, n_workers=2)\n"
        "print(fork_server.current().pid, *venv.worker_pids, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=300
    )
    pids = [int(text) for text in ended.stdout.split()]
    assert len(pids) == 3
    assert leaks.wait_until(lambda: not any(map(leaks.is_running, pids)))


def test_a_forked_child_has_a_server_of_its_own():
    with probes(1, 1) as venv:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                with probes(1, 1) as own:
                    os.write(write, str(own.call("parent")[0]).encode())
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        its_server = int(os.read(read, 99))
        os.close(read)
        os.close(write)
        assert venv.call("parent") == (fork_server.current().pid,) != (its_server,)
    assert leaks.wait_until(lambda: not leaks.is_running(its_server))


def test_without_a_server_workers_are_interpreters_of_their_own(monkeypatch):
    monkeypatch.setattr(fork_server, "available", lambda: False)
    with probes() as venv:
        assert {*venv.call("parent")} == {os.getpid()}
        venv.reset(seed=0)
        os.kill(venv.worker_pids[0], signal.SIGKILL)
        assert leaks.wait_until(lambda: not leaks.is_running(venv.worker_pids[0]))
    with plangym_ext.make(Probe, n_workers=1) as env:
        (worker,) = env.batch_env
        os.kill(worker.process.pid, signal.SIGKILL)
        assert "was killed by SIGKILL" in str(worker.process.death("step"))


class Imported:
    """Tells which modules its process has."""

    def description(self):
        return {name: name in sys.modules for name in ("colorsys", "sndhdr_of_ours")}

    def close(self):
        pass


def imported(*names):
    worker = WorkerHandle(Service(Imported, names))
    try:
        return worker.describe()
    finally:
        worker.close()


def test_a_worker_is_forked_with_the_modules_that_its_service_names(monkeypatch):
    import colorsys

    assert not imported()["colorsys"]
    monkeypatch.setattr(colorsys, "__file__", "/elsewhere/colorsys.py")
    assert not imported("colorsys")["colorsys"], "what it would take from another file"
    monkeypatch.undo()
    assert not imported("sndhdr_of_ours")["sndhdr_of_ours"], "what this process has not imported"
    assert imported("colorsys")["colorsys"]
    assert imported()["colorsys"], "later workers have it too"


def test_workers_end_without_a_warning(tmp_path):
    """Of what they leave open to the end, too: warnings of theirs would be the user's errors."""
    path = tmp_path / "script.py"
    path.write_text(
        "import plangym_ext, toy_envs\n"
        "with plangym_ext.make(toy_envs.Faulty, n_workers=2) as env:\n"
        "    state, *_ = env.reset(seed=0)\n"
        "    env.step_batch([0, 1], [state] * 2)\n"
        "venv = plangym_ext.make_vec('CartPole-v1', 2, n_workers=2)\n"
        "venv.reset(seed=0)\n"
        "del venv\n"
    )
    strict = {"PYTHONDEVMODE": "1", "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, "-P", str(path)],
        env={**os.environ, **strict, "PYTHONPATH": os.path.dirname(toy_envs.__file__)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")

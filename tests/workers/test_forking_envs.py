"""Envs that fork the process that they are in: copies end, and none goes on in its place."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import leaks
import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="no system that tells"),
]
HERE = Path(__file__).parents[1]
ENV = """
    import multiprocessing, os, signal, subprocess, sys, time, warnings
    import gymnasium as gym, numpy as np, plangym_ext
    warnings.simplefilter("ignore")

    def note(pid):
        with open(os.environ["PIDS"], "a") as file:
            file.write(f"{pid}\\n")

    class Base(gym.Env):
        observation_space = gym.spaces.Box(-99, 99, (1,), np.float64)
        action_space = gym.spaces.Discrete(2)

        def __init__(self):
            self.t = 0
            self.start()

        def start(self): pass

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.t = 0
            return np.zeros(1), {}

        def step(self, action):
            self.t += 1
            return np.full(1, float(self.t)), 0.0, self.t == 9, False, {}

    class Copies(Base):
        def start(self):
            if pid := os.fork():
                return note(pid)
            while True:
                time.sleep(60)

    class Process(Base):
        def start(self):
            process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(999,))
            process.start()
            note(process.pid)

    class Program(Base):
        def start(self):
            note(subprocess.Popen(["sleep", "999"]).pid)

    class ComesBack(Base):
        def start(self):
            if pid := os.fork():
                note(pid)

    class Fails(Copies):
        def start(self):
            super().start()
            raise RuntimeError("no env")

    class StepComesBack(Base):
        def step(self, action):
            if pid := os.fork():
                note(pid)
            return super().step(action)

    class StepComesBackLate(Base):
        # Copies of the first step come back when the first env has ended its third one, whose
        # results lie where those of the first did.
        def __init__(self):
            super().__init__()
            self.me = os.getpid()

        def step(self, action):
            late = os.environ["PIDS"] + ".late"
            if os.getpid() == self.me:
                if pid := os.fork():
                    note(pid)
                    pids = [int(line) for line in open(os.environ["PIDS"])]
                    if len(pids) == 6:
                        open(late, "w").close()
                        for pid in pids:
                            os.waitpid(pid, 0)
                else:
                    while not os.path.exists(late):
                        time.sleep(0.01)
            return super().step(action)

    def made(kind, way):
        check = not issubclass(kind, StepComesBack | StepComesBackLate)
        if way == "make":
            return plangym_ext.make(kind, n_workers=0, check=check)
        backend = {"backend": "serial"} if way == "serial" else {"n_workers": 1}
        return plangym_ext.make_vec(kind, 2, check=check, **backend)
"""


def run(tmp_path, body, *arguments):
    """Run a script with the envs; return its output and the processes that they have started."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(ENV) + textwrap.dedent(body))
    (tmp_path / "pids").touch()
    path = os.pathsep.join([str(HERE), *sys.path])
    done = subprocess.run(
        [sys.executable, "-P", str(script), str(tmp_path / "pids"), *arguments],
        env={**os.environ, "PIDS": str(tmp_path / "pids"), "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done, [int(line) for line in (tmp_path / "pids").read_text().split()]


@pytest.mark.parametrize("way", ["make", "serial", "process"])
@pytest.mark.parametrize("kind", ["Copies", "Process"])
def test_copies_of_this_process_end_with_the_env(tmp_path, kind, way):
    body = """
        import leaks
        env = made(globals()[sys.argv[2]], sys.argv[3])
        env.reset(seed=0)
        pids = [int(line) for line in open(sys.argv[1])]
        print("running", any(map(leaks.is_running, pids)))
        env.close()
        pids = [int(line) for line in open(sys.argv[1])]
        print("left", not leaks.wait_until(lambda: not any(map(leaks.is_running, pids))))
    """
    done, pids = run(tmp_path, body, kind, way)
    assert done.stdout.splitlines() == ["running True", "left False"], done.stderr
    assert len(pids) == (1 if way == "make" else 2)


def test_programs_end_with_the_process(tmp_path):
    body = """
        import leaks
        envs = [made(Program, "make") for _ in range(2)]
        envs[0].close()
        print(all(leaks.is_running(int(line)) for line in open(sys.argv[1])))
    """
    done, pids = run(tmp_path, body)
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr
    assert len(pids) == 2
    assert leaks.wait_until(lambda: not any(map(leaks.is_running, pids)))


def test_what_an_env_that_fails_has_started_ends_and_what_others_have_stays(tmp_path):
    body = """
        import leaks
        mine = subprocess.Popen(["sleep", "999"])
        own = os.fork()
        if not own:
            time.sleep(999)
        env = made(Copies, "make")
        for _ in range(2):
            try:
                made(Fails, "make")
            except RuntimeError as error:
                print(error)
        env.close()
        pids = [int(line) for line in open(sys.argv[1])]
        print(len(pids), leaks.wait_until(lambda: not any(map(leaks.is_running, pids))))
        print(leaks.is_running(own), mine.poll())
        for pid in (own, mine.pid):
            os.kill(pid, signal.SIGKILL)
    """
    done, _ = run(tmp_path, body)
    assert done.stdout.splitlines() == ["no env", "no env", "3 True", "True None"], done.stderr


@pytest.mark.parametrize(
    ("kind", "way"),
    [
        *(("ComesBack", way) for way in ("make", "serial", "process")),
        # `make` refuses it: no state holds what an env does by forks.
        *(("StepComesBack", way) for way in ("serial", "process")),
        ("StepComesBackLate", "process"),
    ],
)
def test_a_copy_that_comes_back_is_ended_and_told(tmp_path, kind, way):
    body = """
        me = os.getpid()
        env = made(globals()[sys.argv[2]], sys.argv[3])
        env.reset(seed=0)
        for t in range(1, 4):
            obs = env.step(0 if sys.argv[3] == "make" else np.zeros(2, int))
            obs = obs[1] if sys.argv[3] == "make" and not np.shape(obs[0]) == (1,) else obs[0]
            assert (np.asarray(obs) == t).all(), obs
        env.close()
        print("end", os.getpid() == me, flush=True)
    """
    done, pids = run(tmp_path, body, kind, way)
    assert (done.stdout, done.returncode) == ("end True\n", 0), done.stderr
    assert "came back from there, and is ended" in done.stderr
    assert pids
    assert leaks.wait_until(lambda: not any(map(leaks.is_running, pids)))

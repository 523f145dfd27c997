"""What envs start ends with their workers, wherever it has gone."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import leaks
import numpy as np
import pytest

import plangym_ext
from plangym_ext.core.own_children import children_of

HERE = str(Path(__file__).parent)

pytestmark = pytest.mark.slow  # every test starts processes


class Starts(gym.Env):
    """Starts processes that leave its group, and ends none of them."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, folder, kind):
        command = ["sleep", "1000"]
        if kind == "setsid":
            pids = [subprocess.Popen(command, start_new_session=True).pid]
        elif kind == "tree":
            # A shell in a session of its own, whose child has one of its own again.
            text = "setsid sleep 1000 & setsid sleep 1000 & echo $$; wait"
            shell = subprocess.Popen(
                ["sh", "-c", text], start_new_session=True, stdout=subprocess.PIPE, text=True
            )
            shell.stdout.readline()
            pids = [shell.pid]
        else:
            text = "import os, sys\nif os.fork(): os._exit(0)\nos.setsid()\n"
            text += "pid = os.fork()\nif pid: print(pid, flush=True); os._exit(0)\n"
            text += "os.close(1)\nos.execvp('sleep', ['sleep', '1000'])\n"
            done = subprocess.run(
                [sys.executable, "-c", text], stdout=subprocess.PIPE, text=True, check=True
            )
            pids = [int(done.stdout)]
        pids += [child for parent in pids for child in children_of(parent)]
        for pid in pids:
            (folder / f"{pid}").touch()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1), {}

    def step(self, action):
        if action:
            os.kill(os.getpid(), signal.SIGKILL)
        return np.zeros(1), 0.0, False, False, {}


def started(folder):
    return [int(path.name) for path in folder.iterdir()]


@pytest.mark.parametrize("kind", ["setsid", "tree", "daemon"])
@pytest.mark.parametrize("ends", ["close", "worker dies", "parent dies"])
def test_what_an_env_starts_ends_with_its_worker(tmp_path, kind, ends):
    if ends == "parent dies":
        text = (
            "import functools, sys; from pathlib import Path; import plangym_ext;"
            "from test_orphans import Starts;"
            "make = functools.partial(Starts, Path(sys.argv[1]), sys.argv[2]);"
            "venv = plangym_ext.make_vec([make] * 2, n_workers=2, capture='off');"
            "venv.reset(seed=0); print('ready', flush=True); sys.stdin.read()"
        )
        with subprocess.Popen(
            [sys.executable, "-P", "-c", text, str(tmp_path), kind],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([HERE, *sys.path])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as parent:
            assert parent.stdout.readline()
            found = started(tmp_path)
            assert any(map(leaks.is_running, found))
            parent.kill()
    else:
        make = functools.partial(Starts, tmp_path, kind)
        venv = plangym_ext.make_vec([make] * 2, n_workers=2, capture="off")
        venv.reset(seed=0)
        found = started(tmp_path)
        assert any(map(leaks.is_running, found))
        if ends == "worker dies":
            with pytest.raises(plangym_ext.errors.WorkerDied):
                venv.step(np.array([1, 1]))
        venv.close()
    assert len(found) >= 2 * (3 if kind == "tree" else 1)
    assert leaks.wait_until(lambda: not any(map(leaks.is_running, found)))


def test_what_others_have_started_stays(tmp_path):
    """The end of one worker is not that of what another one's env has started."""
    make = functools.partial(Starts, tmp_path, "daemon")
    with plangym_ext.make_vec([make], n_workers=1, capture="off") as first:
        first.reset(seed=0)
        found = started(tmp_path)
        second = plangym_ext.make_vec([make], n_workers=1, capture="off")
        others = set(started(tmp_path)) - set(found)
        second.close()
        assert leaks.wait_until(lambda: not any(map(leaks.is_running, others)))
        # That of the trial env, which was made and closed first, has ended before.
        assert any(map(leaks.is_running, found))
    assert leaks.wait_until(lambda: not any(map(leaks.is_running, found)))

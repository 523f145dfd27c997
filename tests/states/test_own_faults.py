"""A fault of the library in one way of capturing states is told, though another way works."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import gymnasium as gym
import numpy as np
import pytest

import plangym_ext
from plangym_ext.states.snapshot import SnapshotPart


def env_class():
    class Counts(gym.Env):
        observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
        action_space = gym.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.t = 0
            return np.zeros(1), {}

        def step(self, action):
            self.t += 1
            return np.full(1, float(self.t)), 0.0, self.t == 9, False, {}

    return Counts


class Stubborn:
    """An attribute whose own code raises where it is captured."""

    def __reduce_ex__(self, protocol):
        return {}["nothing"]

    def __getstate__(self):
        return {}["nothing"]


def test_a_fault_of_the_library_is_told(monkeypatch):
    monkeypatch.delattr(SnapshotPart, "_checked")
    told = r"snapshot: a fault of plangym_ext.*AttributeError.*plangym_ext\.states\.snapshot:\d+"
    with (
        pytest.warns(UserWarning, match=rf"{told}.*'replay' is taken instead"),
        plangym_ext.make(env_class(), n_workers=0) as env,
    ):
        assert env.exactness.method == "replay"


def test_an_error_of_the_env_is_none_of_the_library():
    class Holds(env_class()):
        def reset(self, *, seed=None, options=None):
            self.held = Stubborn()
            return super().reset(seed=seed)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with plangym_ext.make(Holds, n_workers=0) as env:
            assert env.exactness.method in ("snapshot", "replay")


MEMORY = """
import resource, sys
import gymnasium as gym, mujoco, numpy as np, plangym_ext
from plangym_ext.errors import PlangymExtError

class Holds(gym.Env):
    observation_space = gym.spaces.Box(-9, 9, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def __init__(self):
        self.model = mujoco.MjModel.from_xml_string("<mujoco/>")
        self.data = mujoco.MjData(self.model)
        self.big = bytes(100_000_000) if sys.argv[1] == "bytes" else np.ones(12_500_000)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1), {}

    def step(self, action):
        return np.zeros(1), 0.0, False, False, {}

room = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (room + int(sys.argv[2]) * 10**6,) * 2)
try:
    plangym_ext.make(Holds, n_workers=0, check=0.1).close()
except PlangymExtError as error:
    print("told", error)
except MemoryError:
    print("raw")
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bytes", "array"])
@pytest.mark.parametrize("room", [150, 250, 350])
def test_large_attributes_cost_no_raw_memory_error(kind, room):
    pytest.importorskip("mujoco")
    done = subprocess.run(
        [sys.executable, "-P", "-c", MEMORY, kind, str(room)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "error::UserWarning"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "raw" not in done.stdout

"""Observations for which there is too little memory: the error says of which envs, and how much."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

SCRIPT = """
import resource
import gymnasium as gym
import numpy as np
import plangym_ext

class Wide(gym.Env):
    action_space = gym.spaces.Discrete(2)
    observation_space = gym.spaces.Box(0, 255, (16 << 20,), np.uint8)

    def reset(self, *, seed=None, options=None):
        return np.zeros(16 << 20, np.uint8), {}

    def step(self, action):
        return np.zeros(16 << 20, np.uint8), 0.0, False, False, {}

with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30),) * 2)
try:
    plangym_ext.make_vec(Wide, 100, n_workers=WORKERS, capture="off").reset(seed=0)
except (MemoryError, plangym_ext.errors.StorageError) as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize("workers", [0, 1])
def test_the_error_names_the_envs_and_what_to_do(workers):
    script = SCRIPT.replace("WORKERS", str(workers))
    run = subprocess.run(
        [sys.executable, "-P", "-c", script], capture_output=True, text=True, timeout=300
    )
    said = r"(Memory|Storage)Error make_vec: there is too little memory for 100 of Wide\b.*"
    assert re.match(said + r"(1\.56 GiB|1,67\d,\d{3},\d{3} bytes)", run.stdout), (
        run.stdout + run.stderr
    )
    assert "Ask for fewer at once" in run.stdout

"""`check_vector_env` finds what is known to be wrong in others' vector envs."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow
OPTIONS = "reset by mask leaves the caller's options alone"
PENDING = "a reset clears pending resets"
ENDED = "an ended sub-env is refused when autoreset is disabled"
METADATA = "metadata belong to the instance"
MASKS = "infos have masks"
REACHED = "sub-envs can be called and their attributes read"

# In a process of its own: others' workers outlive their vector env for a while, and ALE's
# vector env writes into the metadata of every vector env that is made after it.
CODE = """
import ale_py, gymnasium as gym, plangym_ext
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

makes = [lambda: gym.make("CartPole-v1")] * 3
venv = {}
report = plangym_ext.check_vector_env(venv, max_steps=500)
venv.close()
assert report.ok == (not report.problems)
for finding in report.problems:
    assert f"BROKEN  {{finding.name}}" in str(report)
    print(finding.name)
"""


def problems(venv, cwd):
    done = subprocess.run(
        [sys.executable, "-P", "-c", CODE.format(venv)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines())


def test_sync_takes_the_mask_out_of_the_options(tmp_path):
    assert problems("SyncVectorEnv(makes)", tmp_path) == {OPTIONS}


def test_async_without_shared_memory_resets_once_more(tmp_path):
    assert PENDING in problems("AsyncVectorEnv(makes, shared_memory=False)", tmp_path)
    assert PENDING not in problems("AsyncVectorEnv(makes)", tmp_path)


def test_async_steps_what_has_ended(tmp_path):
    assert ENDED in problems("AsyncVectorEnv(makes, autoreset_mode='Disabled')", tmp_path)
    assert ENDED not in problems("SyncVectorEnv(makes, autoreset_mode='Disabled')", tmp_path)


def test_atari_writes_into_metadata_of_its_class(tmp_path):
    found = problems("ale_py.AtariVectorEnv('pong', num_envs=2)", tmp_path)
    assert {METADATA, MASKS, REACHED} <= found

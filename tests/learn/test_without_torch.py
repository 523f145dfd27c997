from __future__ import annotations

import subprocess
import sys

import pytest


def python(code):
    """Output of some code in an interpreter that has no torch."""
    blocked = "import sys; sys.modules['torch'] = None\n" + code
    return subprocess.run(
        [sys.executable, "-P", "-c", blocked],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.slow
def test_records_targets_and_settings_need_no_torch():
    code = """
from plangym_ext.learn import AlphaZeroConfig, EpisodeRecord, NetworkConfig, VALUE_TARGETS
print(NetworkConfig().kind, AlphaZeroConfig().policy_target, 'numba' in sys.modules)
"""
    found = python(code)
    assert (found.stdout, found.stderr) == ("auto weights False\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["make_network", "NetworkEvaluator", "SupervisedLearning"])
def test_what_needs_torch_says_how_to_get_it(name):
    found = python(f"from plangym_ext.learn import {name}")
    assert found.returncode == 1
    assert found.stderr.strip().endswith("pip install -c constraints.txt '.[learn]'")
    assert "plangym_ext.errors.MissingExtra" in found.stderr


@pytest.mark.slow
def test_an_agent_of_ones_own_needs_no_torch():
    code = """
import numpy as np
import plangym_ext
from plangym_ext.learn import GeneratorNoise, RandomAgent, check_agent
from plangym_ext.planners import play
with plangym_ext.make("CartPole-v1", backend="serial") as env:
    print(play(env, RandomAgent(env.action_space), seed=0, max_steps=3).length)
"""
    found = python(code)
    assert (found.stdout, found.stderr) == ("3\n", "")

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
        timeout=60,
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
@pytest.mark.parametrize("name", ["make_network", "NetworkEvaluator", "AlphaZeroTrainer"])
def test_what_needs_torch_says_how_to_get_it(name):
    found = python(f"from plangym_ext.learn import {name}")
    assert found.returncode == 1
    assert found.stderr.strip().endswith("pip install -c constraints.txt '.[learn]'")
    assert "plangym_ext.errors.MissingExtra" in found.stderr

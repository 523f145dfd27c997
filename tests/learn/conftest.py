from __future__ import annotations

import importlib.util
import sys

import pytest

# The extra `test` brings torch; without it what needs none is tested.
if importlib.util.find_spec("torch") is None:
    collect_ignore = [
        f"test_{name}.py"
        for name in ("distributions", "evaluator", "network_policy", "networks", "trainers")
    ]


@pytest.fixture(autouse=True)
def one_thread_per_process():
    """Have small networks computed by one thread: more wait for each other, and for tests."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)

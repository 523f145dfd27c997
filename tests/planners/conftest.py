from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def models():
    # Loaded by path: tests are not a package, and must not become importable.
    spec = importlib.util.spec_from_file_location(
        "planner_test_models", Path(__file__).with_name("models.py")
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module

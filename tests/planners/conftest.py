from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest


def loaded(name):
    """A module beside this file, by path: tests are no package, and must not be importable."""
    spec = importlib.util.spec_from_file_location(
        f"planner_test_{name}", Path(__file__).with_name(f"{name}.py")
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def models():
    return loaded("models")


@pytest.fixture(scope="session")
def textbook():
    return loaded("textbook").textbook

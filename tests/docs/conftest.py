from __future__ import annotations

from pathlib import Path

import pytest
from docs_fences import ROOT, pages, read_fences


def pytest_generate_tests(metafunc):
    if "page" in metafunc.fixturenames:
        found = pages()
        metafunc.parametrize("page", found, ids=[str(p.relative_to(ROOT)) for p in found])


@pytest.fixture
def root() -> Path:
    """Return the checkout."""
    return ROOT


@pytest.fixture
def fences():
    """Return `read_fences`, as a fixture because test folders are not importable."""
    return read_fences


@pytest.fixture
def assert_program_runs(scripts):
    """Run a program that users may run: it has to succeed and to say something."""

    def run(path: Path, folder: Path, **env: str) -> None:
        done = scripts.run(path, folder=folder, env=env, timeout=300)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip()

    return run

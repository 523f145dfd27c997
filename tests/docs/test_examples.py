"""The example programs run, at reduced size."""

from __future__ import annotations

from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "docs" / "examples").glob("*.py"))


def test_there_are_examples():
    assert len(EXAMPLES) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(example, assert_program_runs, tmp_path):
    assert_program_runs(example, tmp_path, ROUNDS="2", TMPDIR=str(tmp_path))

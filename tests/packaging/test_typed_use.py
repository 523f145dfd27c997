"""The script whose types are checked runs as well."""

from __future__ import annotations

import runpy
from pathlib import Path


def test_the_script_that_is_type_checked_runs(capsys):
    runpy.run_path(str(Path(__file__).with_name("typed_use.py")), run_name="__main__")
    assert capsys.readouterr().out == "8.0 10.0\n"

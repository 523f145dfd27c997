"""`plangym-ext new`: what it writes passes its own tests, and is taken by the other commands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from plangym_ext.run.cli import main
from plangym_ext.run.commands.new import KINDS


@pytest.mark.slow
def test_new_files_pass_their_own_tests(tmp_path):
    names = {kind: f"own_{kind}" for kind in KINDS}
    for kind, name in names.items():
        assert main(["new", kind, name, "--out", str(tmp_path)]) == 0
    written = {f"{name}.py" for name in names.values()}
    written |= {f"test_{name}" for name in written}
    assert {path.name for path in tmp_path.iterdir()} == written
    # In a process of its own: the modules are new to it, and found beside their tests.
    command = [sys.executable, "-P", "-m", "pytest", "-v", "-p", "no:cacheprovider", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
    for name in names.values():
        assert len(re.findall(rf"test_{name}\.py::.* PASSED", done.stdout)) >= 2


def test_files_are_not_written_over_and_names_are_checked(tmp_path, capsys, monkeypatch):
    out = ["--out", str(tmp_path)]
    monkeypatch.chdir(tmp_path)
    assert main(["new", "env", "my_walk"]) == 0
    assert capsys.readouterr().out == (
        "wrote my_walk.py\nwrote test_my_walk.py\nnext: python -m pytest test_my_walk.py\n"
    )
    before = (tmp_path / "my_walk.py").read_text()
    assert "class MyWalk(" in before
    assert main(["new", "planner", "MyWalk", *out]) == 2
    assert (
        "is there already. Name another place with --out, or choose another name"
        in capsys.readouterr().err
    )
    assert (tmp_path / "my_walk.py").read_text() == before
    for name in ("2walk", "a-b", "class", "_", "Caf\xe9"):
        assert main(["new", "env", name, *out]) == 2
    assert len(list(tmp_path.iterdir())) == 2
    assert main(["new", "env", "Walk", "--out", str(tmp_path / "my_walk.py")]) == 2
    assert "must be a file in a folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("env", "none", "the template uses the name None"),
        ("env", "MCTS", "the template uses the name MCTS"),
        ("planner", "planner", "the template uses the name Planner"),
        ("algorithm", "A2CConfig", "the template uses the name A2CConfig"),
        ("env", "Random", "would hide the Python module random"),
        ("env", "numpy", "would hide the Python module numpy"),
        ("planner", "Conftest", "would hide the Python module conftest"),
    ],
)
def test_names_that_break_the_files_or_others_are_refused(kind, name, said, tmp_path, capsys):
    assert main(["new", kind, name, "--out", str(tmp_path / "new")]) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_tutorial_shows_the_algorithm_that_is_written(tmp_path, monkeypatch):
    # Where a module of this name can be imported, none is written.
    monkeypatch.setattr(sys, "path", [one for one in sys.path if "examples" not in one])
    assert main(["new", "algorithm", "Scaled", "--out", str(tmp_path)]) == 0
    shown = Path(__file__).parents[3] / "docs/examples/scaled.py"
    # Word by word: the formatter takes an indentation from the docstring.
    written = (tmp_path / "scaled.py").read_text().split()
    assert shown.read_text().split()[: len(written)] == written

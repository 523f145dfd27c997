"""The two commands of the README, and what the test run tests."""

from __future__ import annotations

import html
import importlib
import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from published import environments_without_skips, tox_environments


@pytest.fixture
def readme_commands(root, fences):
    """Return the two one-line commands: run the main job, pass the tests."""
    found = [f.code for f in fences(root / "README.md") if f.tag == "console"]
    first, second = (code.removeprefix("$ ").rstrip("\n") for code in found[:2])
    return first, second


def test_readme_commands_are_one_line_each(readme_commands):
    for command in readme_commands:
        assert "\n" not in command
        assert command.startswith("python3 -m venv ")


def test_the_first_installs_with_constraints_and_runs_the_main_job(readme_commands):
    first, _ = readme_commands
    assert 'pip install -c constraints.txt ".[cli]"' in first
    assert "plangym-ext plan ALE/" in first
    assert "--video" in first


def test_figures_beside_others_are_those_of_the_benchmarks(root):
    readme, measured = ((root / name).read_text() for name in ("README.md", "docs/benchmarks.md"))
    rows = [line.split("|")[4] for line in readme.splitlines() if line.startswith("| [")]
    said = re.findall(r"(?:: \**|steps/s, .*` )(\d[\d.,]*\d)", "\n".join(rows))
    assert len(rows) == 5
    assert len(said) == 11
    for figure in said:
        assert f"| {figure} |" in measured or f"| {figure}\n" in measured, figure


def test_what_the_first_command_is_said_to_score_is_measured(root):
    readme, measured = ((root / name).read_text() for name in ("README.md", "docs/benchmarks.md"))
    text = readme.partition("## Run it")[2].partition("```")[0]
    (said,) = re.findall(r"makes ([\d.,]+) points, where random play makes ([\d.,]+)\n", text)
    # No other figure of points is on the page: each has to be one of a program.
    assert readme.count(" points") == 1
    table = measured.partition("## Rollout-IW in 49 Atari games")[2].partition("\n## ")[0]
    (row,) = (line for line in table.splitlines() if line.startswith("| MsPacman | 307"))
    random, *_, planned, _ = (cell.strip(" *").split("*")[0] for cell in row.split("|")[2:-1])
    assert said == (planned, random)


def test_the_picture_of_ratios_is_that_of_the_table(root):
    """If not: `python tests/benchmarks/ratios.py`."""
    page, picture = (root / "docs" / name for name in ("benchmarks.md", "_static/ratios.svg"))
    said = re.search(r"<dc:description>(.*?)</dc:description>", picture.read_text(), re.S)[1]
    drawn = json.loads(html.unescape(said))
    table = page.read_text().partition("## Ratios")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    rows = [row for row in rows if row]
    names = rows[0][1:]
    assert len(drawn) == 7
    for env, ratios in drawn.items():
        (cells,) = (row[1:] for row in rows if row[0] == f"{env}, 64")
        measured = {name: float(cell) for name, cell in zip(names, cells, strict=True) if cell}
        del measured["raw simulator"]
        assert ratios == measured


@pytest.fixture
def ci_commands(root):
    """Return the lines of `.ci/run` that do something, after the usual first ones."""
    script = root / ".ci" / "run"
    lines = [line for line in script.read_text().splitlines() if line]
    commands = [line for line in lines if not line.startswith("#")]
    assert lines[0] == "#!/usr/bin/env bash"
    assert script.stat().st_mode & stat.S_IXUSR
    assert commands[:2] == ["set -euo pipefail", 'cd "$(dirname "$0")/.."']
    return commands[2:]


def test_ci_runs_the_second_command_of_the_readme(ci_commands, readme_commands):
    assert ci_commands[0] == readme_commands[1]


def test_ci_goes_on_to_the_environments_that_skip_nothing(ci_commands):
    (loop,) = (line for line in ci_commands if line.startswith("for names in "))
    chosen = set(loop.removeprefix("for names in ").removesuffix("; do").replace(",", " ").split())
    assert chosen == environments_without_skips() | {"commands"}
    assert chosen <= tox_environments()


def test_ci_runs_every_environment_and_fails_where_one_does(ci_commands, tmp_path):
    tox = tmp_path / ".venv" / "bin" / "tox"
    tox.parent.mkdir(parents=True)
    tox.write_text(
        '#!/bin/bash\necho "${@: -1}" >> ran\n[[ "$*" == *parallel* && "$*" != *retro* ]]\n'
    )
    tox.chmod(0o755)
    loop = "\n".join(["set -euo pipefail", *ci_commands[ci_commands.index('failed=""') :]])
    done = subprocess.run(["bash", "-c", loop], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "failed: extras,dm_control,retro\n")
    ran = (tmp_path / "ran").read_text().replace(",", " ").split()
    assert sorted(ran) == sorted(environments_without_skips() | {"commands"})


@pytest.mark.parametrize(
    "name", ["plangym_ext", "plangym_ext.core", "plangym_ext.envs", "plangym_ext.planners"]
)
def test_under_tox_the_installed_wheel_is_tested(name):
    site_packages = os.environ.get("PLANGYM_EXT_SITE_PACKAGES")
    if site_packages is None:
        pytest.skip("not run by tox")
    module = importlib.import_module(name)
    assert module.__file__ is not None
    assert Path(module.__file__).is_relative_to(site_packages)


@pytest.mark.slow
def test_every_python_block_of_the_readme_is_a_whole_script(root, fences, tmp_path):
    # As its text says. One process runs them all, each in a namespace of its own.
    blocks = [fence for fence in fences(root / "README.md") if fence.tag == "python"]
    assert len(blocks) >= 3
    program = "import json, sys\nfor code in json.load(sys.stdin): exec(code, {'__name__': 'x'})"
    done = subprocess.run(
        [sys.executable, "-P", "-W", "error", "-c", program],
        input=json.dumps([block.code for block in blocks]),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr

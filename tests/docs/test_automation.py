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


@pytest.fixture
def summary(root, monkeypatch):
    """Return the program that writes the ratios of the pages of benchmarks."""
    monkeypatch.syspath_prepend(str(root / "tests" / "benchmarks"))
    return importlib.import_module("summary")


def test_the_figures_of_the_readme_are_those_of_the_newest_sections(root, summary):
    """If not: `python tests/benchmarks/summary.py`."""
    text = (root / "README.md").read_text()
    assert text == summary.readme(root / "docs" / "benchmarks.md", text)
    # There are no others: each has to be one of a program, with its commit.
    told, begin, rest = text.partition("<!-- begin figures")
    assert begin
    told += rest.partition("<!-- end figures -->")[2]
    told = re.sub(r"^```.*?^```$", "", told, flags=re.S | re.M)
    numbers = set(re.findall(r"\d[\d.,]*\d", told)) - {
        "25",
        "200",
        "16",
    }  # planners, moves, searches
    assert numbers == {"0.1", "3.11", "3.13", "312", "313"}  # versions


def test_the_page_of_ratios_is_that_of_the_sections(root, summary):
    """If not: `python tests/benchmarks/summary.py`."""
    page = root / "docs" / "benchmarks.md"
    assert page.read_text() == summary.summary(page)


def test_a_figure_that_is_measured_anew_has_to_be_told_anew(root, summary, tmp_path):
    for path in (root / "docs").glob("benchmarks*.md"):
        (tmp_path / path.name).write_text(path.read_text())
    page, text = tmp_path / "benchmarks.md", (root / "README.md").read_text()
    assert text == summary.readme(page, text)
    changed = tmp_path / "benchmarks_stepping.md"
    old = re.search(r"\| EnvPool \| [\d.]+ \|", text)[0]
    assert old in changed.read_text()
    changed.write_text(changed.read_text().replace(old, "| EnvPool | 0.123 |"))
    assert text != summary.readme(page, text)
    assert page.read_text() != summary.summary(page)


def test_every_section_says_which_code_was_measured(root, summary):
    page = root / "docs" / "benchmarks.md"
    for names in summary.PAGES.values():
        for name in names:
            text = summary.section_text(page, name)
            assert re.match(r"## .*\n\nNewest figures: commit `[0-9a-f]{8}`, 20", text), name


_RATES = re.compile(
    r"\b(steps|rows|updates|simulations)(/s| a second(?! time)| per second)\b|\d (ms|us)\b",
    re.IGNORECASE,
)


def timed_tables(text):
    """Yield the section of every table of times or rates, and the table with what leads to it."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M)
    for section in re.split(r"^(?=#+ )", text, flags=re.M):
        for found in re.finditer(r"^(?:[^\n|][^\n]*\n)*\n*(?:\|.*\n)+", section, re.M):
            if _RATES.search(found[0]):
                yield section, found[0]


def test_tables_of_other_pages_say_which_code_was_measured_and_when(root):
    seen = set()
    for page in sorted((root / "docs").glob("*.md")):
        if page.name.startswith("benchmarks"):
            continue  # has a line for each section: see above
        for section, table in timed_tables(page.read_text()):
            seen.add(page.name)
            told = re.search(r"commit `[0-9a-f]{8}`", section) and re.search(r"\b20\d\d-", section)
            assert told, f"{page.name}: {section.splitlines()[0]}: when was this measured?\n{table}"
    assert len(seen) >= 5


#: A figure of time or of a score in running text.
_FIGURE = re.compile(r"\d (ms|us|points)\b|\b(averages|a return of) -?\d")


def test_figures_in_running_text_say_when_they_were_measured(root):
    seen = set()
    for page in (root / "README.md", *sorted((root / "docs").glob("*.md"))):
        text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.S | re.M)
        text = re.sub(r"^\|.*$", "", text, flags=re.M)
        for section in re.split(r"^(?=#+ )", text, flags=re.M):
            if found := _FIGURE.search(section):
                seen.add(page.name)
                where = f"{page.name}: {section.splitlines()[0]}: {found[0]}"
                assert re.search(r"\b20\d\d-\d\d-\d\d\b", section), f"{where}: measured when?"
    assert len(seen) > 9


def test_commits_that_pages_name_are_in_the_history(root):
    """A figure whose commit was joined with others is told with the version and the date."""

    def git(*words):
        return subprocess.run(["git", "-C", root, *words], capture_output=True, text=True)

    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("no history is here, or a part of it")
    whole = git("rev-list", "HEAD").stdout
    if not whole.splitlines()[-1].startswith("d9a09f9c"):
        pytest.skip("the history does not begin where the project's does")
    known = {line[:8] for line in whole.splitlines()}
    for page in (root / "README.md", *sorted((root / "docs").glob("*.md"))):
        named = set(re.findall(r"\b(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{8}\b", page.read_text()))
        assert named <= known, f"{page.name}: {named - known}"


def test_the_picture_of_ratios_is_that_of_the_table(root):
    """If not: `python tests/benchmarks/ratios.py`."""
    page, picture = (
        root / "docs" / name for name in ("benchmarks_stepping.md", "_static/ratios.svg")
    )
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
    assert blocks
    program = "import json, sys\nfor code in json.load(sys.stdin): exec(code, {'__name__': 'x'})"
    done = subprocess.run(
        [sys.executable, "-P", "-W", "error", "-c", program],
        input=json.dumps([block.code for block in blocks]),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr

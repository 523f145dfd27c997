"""What the pages show is run: python fences as scripts, commands by their parser."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sys
import time
from pathlib import Path

import built_links
import leaks
import pytest
from clock_bounds import within
from published import console_commands

RUNNER = Path(__file__).with_name("run_fences.py")


def run_as_script(scripts, page, fences, folder):
    """Run fences in an interpreter that has seen nothing of this project."""
    text = json.dumps(fences)
    return scripts.run(RUNNER, [str(page)], folder=folder, stdin=text, warnings_are_errors=True)


def session_members(session):
    """Return the processes of a session by number, zombies left out."""
    members = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                # After the name, which may hold anything: state ppid pgrp session.
                state, _, _, of = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            except OSError:  # it ended meanwhile
                continue
            if int(of) == session and state != "Z":
                members.append(int(entry.name))
    return members


@pytest.mark.slow
def test_python_on_the_page_runs_and_leaves_no_process(page, fences, scripts, tmp_path):
    blocks = [fence for fence in fences(page) if fence.tag in ("python", "output")]
    if not any(fence.tag == "python" for fence in blocks):
        pytest.skip("nothing to run")
    done = run_as_script(scripts, page, blocks, tmp_path)
    assert done.returncode == 0, f"{page.name}: a python fence failed\n{done.stderr}"
    ended = time.monotonic()
    gone = leaks.wait_until(lambda: not session_members(done.pid))
    took, left = time.monotonic() - ended, session_members(done.pid)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []
    assert gone
    assert within(took, 1.0)


def trees_of(page):
    """Return caption and pages of every tree that a page has."""
    return [
        (re.findall(":caption: (.+)", tree), re.findall(r"^\w[\w/]*$", tree, re.M))
        for tree in re.findall(r"^```\{toctree\}\n(.*?)^```$", page.read_text(), re.M | re.S)
    ]


def test_the_navigation_has_six_groups_of_eight_pages_and_the_first_page_names_all(root):
    first = root / "docs/index.md"
    groups = trees_of(first)
    assert len(groups) == 6
    assert all(caption and len(names) <= 8 for caption, names in groups)
    below = [
        name
        for page in (root / "docs").glob("*.md")
        if page != first
        for _, names in trees_of(page)
        for name in names
        if "/" not in name
    ]
    pages = sorted(path.stem for path in (root / "docs").glob("*.md") if path != first)
    above = [name for _, names in groups for name in names if "/" not in name]
    assert sorted(above + below) == pages
    assert set(re.findall(r"\]\((\w+)\.md\)", first.read_text())) == set(pages)


def test_links_of_built_pages_that_lead_nowhere_are_told(tmp_path, capsys):
    assert built_links.main(tmp_path) == 1
    (tmp_path / "more").mkdir()
    (tmp_path / "more/page.html").write_text(
        '<h1 id="Top&amp;">x</h1><a href="../index.html">x</a>'
    )
    good = '<a href="more/page.html#Top%26"></a><a href="https://x.org/y"></a><a href="#a"></a>'
    (tmp_path / "index.html").write_text(f'<p id="a">{good}')
    capsys.readouterr()
    assert built_links.main(tmp_path) == 0
    assert capsys.readouterr().out == ""
    bad = '<img src="more/none.svg"><a href="more/page.html#none"></a><a href="#none"></a>'
    (tmp_path / "index.html").write_text(f'<p id="a">{good}{bad}')
    assert built_links.main(tmp_path) == 1
    assert capsys.readouterr().out.splitlines() == [
        "index.html: more/none.svg: there is no such file",
        "index.html: more/page.html#none: there is no such anchor",
        "index.html: #none: there is no such anchor",
    ]


def test_command_lines_on_the_page_parse(page, fences, capsys, root, monkeypatch):
    monkeypatch.chdir(root / "docs" / "examples")  # where planners of one's own are found
    monkeypatch.setattr(sys, "path", [*sys.path])
    cli = pytest.importorskip("plangym_ext.run.cli", reason="no command line yet")
    for fence in fences(page):
        if fence.tag != "console":
            continue
        for line, words in console_commands(fence):
            if Path(words[0]).name != "plangym-ext":
                continue
            try:
                cli.build_parser(words[1:]).parse_args(words[1:])
            except SystemExit as end:
                if end.code != 0:  # as --help and --version do
                    said = capsys.readouterr().err
                    pytest.fail(f"{page.name}, line {line}: {shlex.join(words)}: {said}")


def test_console_fences_mark_commands_with_a_dollar(page, fences):
    # Else the test above would pass over them.
    for fence in fences(page):
        if fence.tag == "console":
            assert fence.code.startswith("$ "), f"{page.name}, line {fence.line}"


def test_the_page_names_all_planners_whose_plans_have_trees(root):
    from plangym_ext.planners import PLANNERS, load_planner, options_of

    page = (root / "docs" / "planners.md").read_text()
    said = re.search(r"that have the option `return_tree`\s+\((.+?)\)", page)[1]
    having = [
        name
        for name in PLANNERS
        if any(option.name == "return_tree" for option in options_of(load_planner(name)))
    ]
    assert re.findall(r"`([\w-]+)`", said) == having


# The tools above, on pages that are wrong ------------------------------------


def test_a_failing_fence_is_named_by_page_and_line(fences, scripts, tmp_path):
    page = tmp_path / "broken.md"
    page.write_text("# Title\n\n```python\nx = 1\n```\n\nText.\n\n```python\n\nx + nope\n```\n")
    done = run_as_script(scripts, page, fences(page), tmp_path)
    assert done.returncode == 1
    assert f'File "{page}", line 11' in done.stderr
    assert "NameError: name 'nope' is not defined" in done.stderr


def test_a_wrong_output_fence_is_named_by_page_and_line(fences, scripts, tmp_path):
    page = tmp_path / "wrong.md"
    page.write_text("```python\nprint(2 * 2)\n```\n\n```output\n5\n```\n")
    done = run_as_script(scripts, page, fences(page), tmp_path)
    assert done.returncode == 1
    assert f'File "{page}", line 6: the page says\n5\n' in done.stderr


def test_fences_of_other_tags_are_not_run(fences, tmp_path):
    page = tmp_path / "page.md"
    nested = "````text\n```python\n1 / 0\n```\n````\n"
    page.write_text(nested + "\n- item\n\n  ```python\n  x = 1\n  ```\n")
    found = fences(page)
    assert [(f.tag, f.line) for f in found] == [("text", 2), ("python", 10)]
    assert found[1].code == "x = 1\n"


def test_a_fence_that_is_never_closed_is_an_error(fences, tmp_path):
    page = tmp_path / "open.md"
    page.write_text("text\n```python\nx = 1\n")
    with pytest.raises(ValueError, match="line 2: this fence is never closed"):
        fences(page)

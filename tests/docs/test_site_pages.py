"""The pages that the build writes: complete, and their examples run."""

from __future__ import annotations

import importlib
import os
import re

import pytest
from docs_fences import ROOT

from plangym_ext.planners import PLANNERS
from plangym_ext.run.commands import COMMANDS
from plangym_ext.run.settings.sections import ALGORITHMS


@pytest.fixture
def site(monkeypatch):
    """Return the module of the docs that makes the pages."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return importlib.import_module("site_pages")


def test_pages_of_planners_have_a_source_an_example_and_every_option(site):
    pages = site.planner_pages()
    assert list(pages) == list(PLANNERS)
    for name, text in pages.items():
        assert "Source: " in text, name
        assert f"--planner {name}`" in text
        rows = re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", text, re.M)
        assert {"num_simulations", "discount", "max_model_steps"} <= {option for option, _ in rows}
        assert all(meaning for _, meaning in rows), name
    measured = [name for name, text in pages.items() if "## Measured" in text]
    assert {"mcts", "rollout-iw", "icem", "mppi"} <= set(measured)


def test_pages_of_algorithms_have_a_source_an_example_and_every_option(site):
    pytest.importorskip("torch")
    pages = site.algorithm_pages()
    assert list(pages) == list(ALGORITHMS)
    for name, text in pages.items():
        if not ALGORITHMS[name][0].startswith("Supervised"):
            assert "Source: " in text, name
        # Teams learn each at the rate of its own algorithm.
        assert f"| `{'teams' if name == 'teams' else 'learning_rate'}` |" in text
    assert "| ppo_cartpole | 102,400 | ours |" in pages["ppo"]


@pytest.mark.parametrize("name", PLANNERS)
def test_the_example_of_a_planner_runs(site, name, capsys):
    exec(site.planner_example(name), {})
    assert capsys.readouterr().out.strip()


@pytest.mark.slow
@pytest.mark.skipif("PYTEST_COMMANDS" not in os.environ, reason="runs in tox -e commands")
@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_example_of_an_algorithm_runs(site, name, tmp_path, monkeypatch, capsys):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    exec(site.algorithm_example(name), {"__name__": "__main__"})
    assert capsys.readouterr().out.strip()


def test_pages_of_env_families_have_a_picture_and_certificates(site):
    for name, text in site.env_pages().items():
        assert text.count("\n| ") > 3, name
        picture = ROOT / "docs" / "_static" / "envs" / f"{name}.webp"
        assert picture.stat().st_size < 20_480
        assert picture.name in text


def test_the_page_of_the_command_line_has_every_command_and_option(site):
    written = site.command_page.page()
    for name in COMMANDS:
        assert f"# {name}\n" in written
    # What argparse and a default say.
    assert "- `--max-steps M` (`1000`): maximum number of moves\n" in written


def test_the_pages_of_the_api_are_the_sections_of_its_page(site):
    text = (ROOT / "docs/api.md").read_text()
    assert len(site.api_pages()) == text.count("\n## ")
    assert site.api_index(text).count("generated/api/") == text.count("\n## ")


def test_the_pages_have_45_000_words_at_most_benchmarks_apart():
    pages = [page for page in (ROOT / "docs").glob("*.md") if "benchmarks" not in page.name]
    assert sum(len(page.read_text().split()) for page in pages) <= 45_000


def screens(page):
    """Return about how many screens of 38 lines a page has, with the programs that it includes.

    A line of code is four fifths of one of text as it is in the file; a heading is two lines, a row
    of a table one and a half for each 70 characters.
    """
    size, is_code = 0.0, False
    for line in page.read_text().splitlines():
        included = page.parent / line.partition("{literalinclude} ")[2]
        if line.startswith("```"):
            is_code = not is_code
            size += 0.8 * len(included.read_text().splitlines()) if included.is_file() else 0.0
        elif is_code:
            size += 0.8
        else:
            size += 2 if line.startswith("#") else 1
            size += 1.5 * len(line) / 70 - 1 if line.startswith("|") else 0
    return size / 38


def test_no_page_has_more_than_12_screens():
    # The benchmarks' tables are generated.
    pages = {page.stem: screens(page) for page in (ROOT / "docs").glob("*.md")}
    long = {name for name, size in pages.items() if size > 12}
    assert {name for name in long if not name.startswith("benchmarks_")} == set()

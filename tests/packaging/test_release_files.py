"""What the repository tells others: how to cite it, what runs its tests, before commits too."""

from __future__ import annotations

import configparser
import re
import tomllib
from pathlib import Path

import llms
import pytest
from docs_fences import read_fences
from published import environments_without_skips, tox_environments

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
TESTS = GITHUB / "workflows" / "tests.yml"
WEEKLY = GITHUB / "workflows" / "weekly.yml"
RECIPE = ROOT / "recipe.yaml"
YAML = sorted(
    [ROOT / "CITATION.cff", ROOT / ".pre-commit-config.yaml", RECIPE, *GITHUB.rglob("*.yml")]
)


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def supported(project) -> list[str]:
    """Return the versions of Python that are supported."""
    return [found for line in project["classifiers"] if (found := line.partition(" :: 3.")[2])]


@pytest.mark.parametrize("path", YAML, ids=lambda path: path.name)
def test_a_file_for_services_can_be_read(path):
    yaml = pytest.importorskip("yaml")
    assert isinstance(yaml.safe_load(path.read_text()), dict)


def test_the_citation_has_the_name_version_and_licence_of_the_project(project):
    lines = (ROOT / "CITATION.cff").read_text().splitlines()
    assert f"title: {project['name']}" in lines
    assert f"version: {project['version']}" in lines
    assert f"license: {project['license']}" in lines


def test_the_conda_recipe_says_what_the_project_says(project):
    yaml = pytest.importorskip("yaml")
    recipe = yaml.safe_load(RECIPE.read_text())
    assert recipe["package"] == {key: project[key] for key in ("name", "version")}
    about = {"summary": "description", "license": "license", "license_file": "license-files"}
    assert recipe["about"] == {key: project[ours] for key, ours in about.items()}
    # conda-forge has MuJoCo's library under the name of its Python package.
    run = [
        one.replace(" ", "").replace("mujoco-python", "mujoco")
        for one in recipe["requirements"]["run"]
    ]
    assert run == [f"python{project['requires-python']}", *project["dependencies"]]
    system = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]
    host = [one.replace(" ", "") for one in recipe["requirements"]["host"]]
    assert host == [f"python{project['requires-python']}", "pip", *system["requires"]]
    scripts = [f"{name} = {target}" for name, target in project["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == scripts


def test_the_tests_run_by_the_second_command_of_the_readme_on_each_python(project):
    text = TESTS.read_text()
    _, second = (f.code for f in read_fences(ROOT / "README.md") if f.tag == "console")
    assert f"          {second.removeprefix('$ ')}          ${{{{ matrix.options }}}}\n" in text
    ran = dict(re.findall(r'python: "3\.(\d+)", options: "(.*)"', text))
    assert list(ran) == supported(project)
    # The command alone is for the oldest one.
    oldest, *newer = ran
    assert ran.pop(oldest) == ""
    assert ran == {minor: f"-e lint,types,docs,py3{minor}" for minor in newer}


def test_once_a_week_the_other_environments_run():
    (line,) = re.findall(r"environment: \[(.*)\]", WEEKLY.read_text())
    chosen = set(line.split(", "))
    others = {"commands", "gymnasium122", "long", "mario", "plangym"}
    assert chosen == environments_without_skips() | others
    assert chosen <= tox_environments()


def test_commits_are_checked_by_what_the_lint_environment_runs():
    settings = configparser.RawConfigParser()
    settings.read(ROOT / "tox.ini")
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    entries = re.findall(r"entry: (.+)", hooks)
    assert entries == settings.get("testenv:lint", "commands").split("\n")[1:]
    pinned = {line for line in (ROOT / "constraints.txt").read_text().split() if "ruff" in line}
    assert set(re.findall(r"additional_dependencies: \[(.+)\]", hooks)) == pinned


def test_the_list_of_pages_for_language_models_is_of_now():
    """If not: `python tests/llms.py`."""
    assert (ROOT / "llms.txt").read_text() == llms.text()


def test_the_changelog_has_a_screen_for_each_release_and_files_for_the_next_one(project):
    head, *releases = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert "<!-- releases -->" in head
    assert any(text.startswith(project["version"]) for text in releases)
    assert all(len(text.splitlines()) <= 60 for text in releases)
    for path in (ROOT / "docs" / "changes").iterdir():
        assert re.fullmatch(r"\+[\w-]+\.(feature|fix|removal)\.txt|about\.txt", path.name)
        assert path.read_text().strip()

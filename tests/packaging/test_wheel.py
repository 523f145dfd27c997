"""What is installed: the three folders as one package, and nothing else."""

import ast
import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import plangym_ext

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "plangym_ext": "plangym_ext",
    "envs": "plangym_ext/envs",
    "planners": "plangym_ext/planners",
}


_SUFFIXES = (".html", ".json", ".pt", ".py", ".pyi", ".toml", ".txt", ".xml")


def clean_env():
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


def python(code, cwd):
    """Return the output of some code in a fresh interpreter, away from the checkout."""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        env=clean_env(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def tree():
    """Return the files that belong into the wheel, by their names there."""
    found = {}
    for folder, target in FOLDERS.items():
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in _SUFFIXES or path.name in ("LICENSE", "NOTICE", "py.typed"):
                found[f"{target}/{path.relative_to(ROOT / folder).as_posix()}"] = path
    return found


def test_list_of_packages_is_complete():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    modules = [Path(name) for name in tree() if name.endswith(".py")]
    expected = {str(module.parent).replace("/", ".") for module in modules}
    assert sorted(project["tool"]["setuptools"]["packages"]) == sorted(expected)


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("setuptools") is None, reason="setuptools is not installed"
)
def test_wheel_holds_the_tree_and_nothing_else(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    # A copy, since a build leaves folders.
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, source / folder)
    code = "from setuptools import build_meta; build_meta.build_wheel('..')"
    built = python(code, source)
    assert built.returncode == 0, built.stderr
    (path,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        files = {n for n in wheel.namelist() if ".dist-info/" not in n}
        expected = tree()
        assert files == set(expected)
        for name, original in expected.items():
            assert wheel.read(name) == original.read_bytes(), name
        (top,) = [n for n in wheel.namelist() if n.endswith("top_level.txt")]
        assert wheel.read(top).split() == [b"plangym_ext"]


@pytest.mark.parametrize("name", ["envs", "planners"])
def test_folders_are_no_packages_of_their_own(name, tmp_path):
    result = python(f"import {name}", tmp_path)
    assert result.returncode == 1
    assert f"No module named '{name}'" in result.stderr


def test_folders_are_imported_through_the_package(tmp_path):
    code = "import plangym_ext.envs, plangym_ext.planners; print(plangym_ext.planners.__name__)"
    result = python(code, tmp_path)
    assert (result.stdout, result.stderr) == ("plangym_ext.planners\n", "")


def test_import_brings_in_nothing_heavy(tmp_path):
    code = "import plangym_ext, sys; print(*sys.modules)"
    loaded = {name.split(".")[0] for name in python(code, tmp_path).stdout.split()}
    assert "plangym_ext" in loaded
    heavy = {"numba", "torch", "gymnasium", "ale_py", "mujoco", "pygame", "numpy", "ray"}
    assert loaded.isdisjoint(heavy)


@pytest.mark.slow
def test_making_a_light_env_brings_in_neither_numba_nor_torch(tmp_path):
    code = "import plangym_ext, sys; plangym_ext.make('CartPole-v1'); print(*sys.modules)"
    loaded = {name.split(".")[0] for name in python(code, tmp_path).stdout.split()}
    assert loaded.isdisjoint({"numba", "torch", "ale_py", "mujoco", "pygame", "ray"})


# Public names -----------------------------------------------------------------------


@pytest.mark.parametrize("name", plangym_ext.__all__)
def test_public_name_resolves(name):
    value = getattr(plangym_ext, name)
    assert value[0].isdigit() if name == "__version__" else value.__doc__


@pytest.mark.parametrize("name", [*plangym_ext._PUBLIC])
def test_public_name_is_on_a_page(name):
    pages = "\n".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
    assert name in pages, f"{name} is on no page of the documentation"


def test_public_names_are_listed_and_sorted_out():
    assert set(plangym_ext.__all__) <= set(dir(plangym_ext))
    assert len(set(plangym_ext.__all__)) == len(plangym_ext.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = plangym_ext.nothing


@pytest.mark.parametrize("package", ["learn", "planners", "run"])
def test_names_that_types_are_told_are_there(package):
    # Type checkers read the stub alone, from which the names are loaded as well.
    module = importlib.import_module(f"plangym_ext.{package}")
    source = ast.parse(Path(module.__file__).with_suffix(".pyi").read_text())
    told = {alias.asname for node in source.body for alias in node.names}
    assert told == set(module.__all__) <= set(dir(module))
    for name in told:
        assert getattr(module, name) is not None

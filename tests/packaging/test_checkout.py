"""The package imported from the folder of a checkout, as by a paste of README's blocks there."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from docs_fences import ROOT, read_fences

FOLDERS = ("plangym_ext", "envs", "planners")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Return a folder with what Python may import of a checkout, as another one is installed."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    return copy


def python(folder, *arguments, stdin=None):
    done = subprocess.run(
        [sys.executable, *arguments],
        input=stdin,
        cwd=folder,
        text=True,
        capture_output=True,
        timeout=300,
    )
    return done.returncode, done.stdout, done.stderr


def blocks():
    """Return README's blocks of Python with what they print, as its page says."""
    found = read_fences(ROOT / "README.md")
    ends = [*found[1:], None]
    return [
        (one.code, after.code if after is not None and after.tag == "output" else None)
        for one, after in zip(found, ends, strict=True)
        if one.tag == "python"
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("code", "printed"), blocks())
def test_blocks_of_the_readme_run_when_pasted_in_the_checkout(checkout, code, printed):
    status, out, err = python(checkout, "-", stdin=code)
    assert status == 0, err
    assert printed is None or out == printed


@pytest.mark.slow
def test_the_command_line_runs_in_the_checkout(checkout):
    status, out, err = python(checkout, "-m", "plangym_ext", "doctor", "FrozenLake-v1")
    assert status == 0, err
    assert "exact" in out


WORKERS = """
import os
import numpy as np
import plangym_ext, plangym_ext.envs, plangym_ext.planners
with plangym_ext.make("CartPole-v1", n_workers=2, backend="process") as env:
    state, obs, info = env.reset(seed=0)
    results = env.step_batch(np.arange(4) % 2, np.repeat(state[None], 4, axis=0))
    print(len(results.rewards))
for module in (plangym_ext, plangym_ext.envs, plangym_ext.planners):
    print(os.path.dirname(module.__file__))
"""


@pytest.mark.slow
def test_a_script_in_the_checkout_has_all_three_folders_from_there(checkout):
    (checkout / "script.py").write_text(WORKERS)
    status, out, err = python(checkout.parent, str(checkout / "script.py"))
    assert status == 0, err
    assert out.split() == ["4", *(str(checkout / name) for name in FOLDERS)]


@pytest.mark.parametrize("name", ["envs", "planners", "plangym_ext.tests", "plangym_ext.docs"])
def test_no_other_names_become_modules(checkout, name):
    for folder in ("tests", "docs"):
        (checkout / folder).mkdir(exist_ok=True)
    status, _, err = python(checkout, "-c", f"import plangym_ext.envs, {name}")
    assert status == 1
    assert f"ModuleNotFoundError: {'there is no' if '.' not in name else 'No'} module" in err


def test_modules_of_the_same_names_elsewhere_are_imported(checkout, tmp_path):
    (tmp_path / "envs.py").write_text("here = True\n")
    program = f"import sys; sys.path.append({str(checkout)!r})\nimport plangym_ext.planners, envs\n"
    status, out, err = python(tmp_path, "-c", f"{program}print(envs.here)")
    assert status == 0, err
    assert out == "True\n"

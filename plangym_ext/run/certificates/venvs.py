"""Temporary virtual environments that contain the installed copy of this library."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import plangym_ext
from plangym_ext.errors import PlangymExtError


class NotInstalled(PlangymExtError):
    """Packages could not be installed together; the message has the installer's output."""


def own_copy(folder: Path) -> Path:
    """Copy this library into a folder, to be put on the path of other interpreters."""
    target = folder / "plangym_ext"
    shutil.rmtree(folder, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__")
    # In a checkout `envs` and `planners` lie beside the others.
    for name in ("", "envs", "planners"):
        module: Any = importlib.import_module(f"plangym_ext.{name}".rstrip("."))
        shutil.copytree(module.__path__[0], target / name, dirs_exist_ok=True, ignore=ignored)
    return folder


def environment(own: Path) -> dict[str, str]:
    """Return the environment variables of an interpreter that finds this library in `own`."""
    return {**os.environ, "PYTHONPATH": str(own), "SDL_VIDEODRIVER": "dummy"}


def make_venv(folder: Path, group: dict[str, Any], seconds: float) -> None:
    """Make a virtual environment with the packages of a group.

    Args:
        folder: that it is made in; removed again if something fails.
        group: of the list of envs.
        seconds: that it may take.

    Raises:
        NotInstalled: the packages do not fit together, cannot be built, or take too long.
    """
    packages = group["packages"]
    loose = [one.get("install", name) for name, one in packages.items() if one.get("loose")]
    others = [one.get("install", name) for name, one in packages.items() if not one.get("loose")]
    pip = [str(folder / "bin" / "python"), "-I", "-m", "pip", "install", "-q", "--no-compile"]
    calls = [[sys.executable, "-m", "venv", str(folder)]]
    calls += [[*pip, "--prefer-binary", *_own_requirements(group.get("with", ())), *others]]
    calls += [[*pip, "--no-deps", *loose]] if loose else []
    try:
        for call in calls:
            subprocess.run(call, check=True, timeout=seconds, text=True, capture_output=True)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise NotInstalled(_reason(error)) from error
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def versions(folder: Path, names: list[str]) -> dict[str, str]:
    """Return the versions of the distributions that are installed in a virtual environment."""
    site = str(next(folder.glob("lib/python*/site-packages")))
    # What an installer has left half done has no name.
    there = [one for one in importlib.metadata.distributions(path=[site]) if one.name]
    found = {_key(one.name): one.version for one in there}
    return {name: found[_key(name)] for name in names if _key(name) in found}


def _own_requirements(given: Any) -> list[str]:
    """Return this library's requirements, with a group's own in place of the same names."""
    own = [r for r in importlib.metadata.requires("plangym-ext") or [] if "extra ==" not in r]
    names = {_name(requirement) for requirement in given}
    return [*given, *(requirement for requirement in own if _name(requirement) not in names)]


def _name(requirement: str) -> str:
    return _key(re.split(r"[^\w.-]", requirement, maxsplit=1)[0])


def _key(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _reason(error: subprocess.CalledProcessError | subprocess.TimeoutExpired) -> str:
    if isinstance(error, subprocess.TimeoutExpired):
        return f"no end in {error.timeout:.0f} s"
    lines = [line for line in (error.stderr or "").splitlines() if "error" in line.lower()]
    return " ".join(lines[0].split())[:300] if lines else f"exit status {error.returncode}"


assert plangym_ext  # its subpackages are imported by name

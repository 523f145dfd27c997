"""Collection of certificates for a list of envs: virtual environments, processes, results."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import plangym_ext
from plangym_ext.core.files.whole_file import PathLock, contents, opened
from plangym_ext.errors import PlangymExtError, UnknownName, suggestion
from plangym_ext.run.files import read_json, write_json
from plangym_ext.run.progress import ProgressLine
from plangym_ext.run.settings.compose import read_file
from plangym_ext.run.training.interrupts import interrupts_held

#: The list that comes with the library.
PUBLIC = Path(__file__).with_name("public_envs.toml")
RESULTS = "certificates.json"
Groups = dict[str, dict[str, Any]]


def read_list(path: Path, names: Sequence[str]) -> Groups:
    """Return the package groups of a list of envs, or only the named groups.

    Args:
        path: TOML: a table for each group, with `packages`; see `public_envs.toml`.
        names: of groups, packages or envs; none for all.

    Raises:
        UnknownName: the list has no such group, package or env.
    """
    groups: Groups = read_file(path)
    known: set[str] = set()
    for group, content in groups.items():
        for package, one in list(content["packages"].items()):
            known.update((group, package, *one["envs"]))
            if names and not {group, package} & {*names}:
                one["envs"] = [env for env in one["envs"] if env in names]
    for name in names:
        if name not in known:
            close = suggestion(name, sorted(known))
            raise UnknownName(f"doctor --all: {path.name} has no {name!r}{close}")
    return groups


class Collection:
    """Certificates in a folder, written one by one.

    Args:
        out: the folder.
        steps: that an env plays at most, to save states on.
        deadline: seconds after which an env is ended, and ten times as many for an installation.
    """

    def __init__(self, out: Path, *, steps: int, deadline: float) -> None:
        out.mkdir(parents=True, exist_ok=True)
        self._lock = PathLock(out, os.O_RDONLY, f"{out}: another doctor writes there")
        self._out, self._steps, self._deadline = out, steps, deadline
        path = out / RESULTS
        self.results: dict[str, Any] = (
            read_json(path, "certificates") if path.exists() else {"groups": {}, "envs": {}}
        )
        self._own = own_copy(out / "own")
        self._line = ProgressLine()

    def close(self) -> None:
        """Release the lock on the folder."""
        self._lock.close()

    def collect(self, groups: Groups) -> None:
        """Make the certificates that are missing."""
        total = sum(
            len(one["envs"]) for group in groups.values() for one in group["packages"].values()
        )
        for name, group in groups.items():
            wanted = [
                (package, env)
                for package, one in group["packages"].items()
                for env in one["envs"]
                if f"{package}: {env}" not in self.results["envs"]
            ]
            if wanted and not self.results["groups"].get(name, {}).get("refused"):
                with self._installed(name, group) as python:
                    if python is None:
                        continue
                    for package, env in wanted:
                        done = len(self.results["envs"])
                        self._line.update(f"{done} of {total}: {package}: {env}", force=True)
                        setup = group["packages"][package].get("setup", "")
                        found = self._certified(python, env, setup)
                        self._keep("envs", f"{package}: {env}", {"group": name, **found})
        self._line.leave()

    @contextlib.contextmanager
    def _installed(self, name: str, group: dict[str, Any]) -> Iterator[Path | None]:
        """Yield an interpreter with the packages of a group, or None."""
        folder = self._out / "venvs" / name
        # One that is there already was given by the caller, and stays.
        made = not folder.exists()
        try:
            if made:
                self._line.update(f"{name}: installing", force=True)
                make_venv(folder, group, 10 * self._deadline)
            names = [*group["packages"], "gymnasium", "numpy", "mujoco"]
            self._keep("groups", name, {"versions": versions(folder, names)})
        except NotInstalled as error:
            self._keep("groups", name, {"refused": str(error)})
            self._line.above(f"{name}: not installed: {error}")
            yield None
            return
        try:
            yield folder / "bin" / "python"
        finally:
            if made:
                shutil.rmtree(folder, ignore_errors=True)

    def _certified(self, python: Path, env: str, setup: str) -> dict[str, Any]:
        task = {"env": env, "setup": setup, "steps": self._steps, "plain": False}
        begun = time.monotonic()
        found = self._run(python, task)
        if found["outcome"] != "exact":
            # Is it the env, or what this library does to it?
            plain = self._run(python, {**task, "plain": True})
            if plain["outcome"] != "runs":
                found = {**plain, "outcome": "does not run", "with_states": found["reason"]}
        return {**found, "took_s": round(time.monotonic() - begun, 1)}

    def _run(self, python: Path, task: dict[str, Any]) -> dict[str, Any]:
        """Return the certificate that another process makes, or how it ended without one."""
        file, log = self._out / "certificate.json", self._out / "log.txt"
        file.unlink(missing_ok=True)
        module = "plangym_ext.run.certificates.certificate"
        call = [python, "-P", "-m", module, json.dumps(task), file]
        with opened(log, "wb") as said:
            try:
                status = _ended(
                    call, said, self._deadline, cwd=self._out / "own", env=environment(self._own)
                )
            except subprocess.TimeoutExpired:
                return {"outcome": "hung", "reason": f"no answer in {self._deadline:.0f} s"}
        if file.exists():
            return read_json(file, "a certificate")
        ended = f"signal {-status}" if status < 0 else f"exit status {status}"
        return {"outcome": "died", "reason": f"{ended}: {_last_line(log)}"}

    def _keep(self, kind: str, name: str, found: dict[str, Any]) -> None:
        self.results[kind][name] = found
        write_json(self._out / RESULTS, self.results)
        if kind == "envs":
            reason = f": {found['reason']}" if found.get("reason") else f", {found.get('way')}"
            self._line.above(f"{name}: {found['outcome']}{reason}")


def _last_line(log: Path) -> str:
    lines = contents(log).decode(errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else "it printed nothing"


# Temporary virtual environments that contain the installed copy of this library


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
        with tempfile.TemporaryFile() as said:
            for call in calls:
                if status := _ended(call, said, seconds):
                    said.seek(0)
                    raise NotInstalled(_reason(status, said.read().decode(errors="replace")))
    except subprocess.TimeoutExpired as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise NotInstalled(f"no end in {error.timeout:.0f} s") from error
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


def _ended(call: Sequence[Any], said: IO[bytes], seconds: float, **how: Any) -> int:
    """Run a program, whose output goes to a file; return its status.

    What it has begun is ended with it, also by a signal to this process.

    Raises:
        TimeoutExpired: it takes longer.
    """
    child = None
    try:
        # An interrupt in the middle would leave a process behind.
        with interrupts_held():
            child = subprocess.Popen(
                call,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **how,
            )
        return child.wait(seconds)
    finally:
        if child is not None:
            # What it has forked too.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def _reason(status: int, said: str) -> str:
    lines = [line for line in said.splitlines() if "error" in line.lower()]
    return " ".join(lines[0].split())[:300] if lines else f"exit status {status}"


assert plangym_ext  # its subpackages are imported by name

"""Who takes part, and the processes they run in."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FOLDER = str(Path(__file__).parent.parent)
PACKAGES = (
    *("envpool", "stable_baselines3", "supersuit", "tianshou", "torchrl", "plangym"),
    "sample_factory",
)
_PROBE = f"""
import importlib.metadata, importlib.util, json
found = {{}}
for name in {(*PACKAGES, "torch", "numpy", "gymnasium", "mujoco", "ale_py", "numba")!r}:
    if importlib.util.find_spec(name):
        found[name] = importlib.metadata.version(name.replace("_", "-"))
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Contestant:
    """One line of the table.

    Attributes:
        name: of the line.
        builds: "module:function" that makes its `Runner`.
        needs: a package, or "" for those that run in our Python.
        from_states: whether it steps from states.
        objects: whether every row is an env object of its own.
        largest: B beyond which it is not measured.
        is_limit: whether it is the raw simulator.
    """

    name: str
    builds: str
    needs: str = ""
    from_states: bool = False
    objects: bool = False
    largest: int = 1024
    is_limit: bool = False

    @property
    def key(self) -> str:
        """In the file of results."""
        return f"{self.name}, from states" if self.from_states else self.name

    @property
    def is_ours(self) -> bool:
        """Whether it is one of our backends."""
        return self.builds.startswith("table.ours:")


def _ours(from_states: bool) -> list[Contestant]:
    return [
        Contestant(f"ours, {backend}", f"table.ours:{backend}", from_states=from_states)
        for backend in ("serial", "process", "kernel", "mujoco")
    ]


#: Beyond so many rows a process for each of them would need more memory than it is worth.
_PROCESSES, _TORCH_PROCESSES = 64, 16
CONTESTANTS = [
    *_ours(from_states=False),
    Contestant("gymnasium, own vector env", "table.gymnasium_own:own"),
    Contestant("gymnasium, sync", "table.gymnasium_own:sync", objects=True),
    Contestant(
        "gymnasium, async", "table.gymnasium_own:in_processes", objects=True, largest=_PROCESSES
    ),
    Contestant("EnvPool", "table.others:envpool", "envpool"),
    Contestant("SB3, DummyVecEnv", "table.others:dummy", "stable_baselines3", objects=True),
    Contestant(
        "SB3, SubprocVecEnv",
        "table.others:subproc",
        "stable_baselines3",
        objects=True,
        largest=_PROCESSES,
    ),
    Contestant(
        "TorchRL, ParallelEnv",
        "table.others:torchrl",
        "torchrl",
        objects=True,
        largest=_TORCH_PROCESSES,
    ),
    Contestant("raw simulator", "table.limits:build", is_limit=True),
    *_ours(from_states=True),
    Contestant("plangym", "table.others:plangym", "plangym", from_states=True),
]


def versions_of(python: str) -> dict[str, str]:
    """The packages that a Python has."""
    answer = subprocess.run(
        [python, "-P", "-c", _PROBE], capture_output=True, text=True, check=True
    )
    found: dict[str, str] = json.loads(answer.stdout)
    return found


class Late(Exception):
    """No answer in time; the process is gone."""


class Process:
    """One contestant's process; it is started when it is first asked and again after `Late`.

    It is stopped while it is not asked: some wait by asking again and again.
    """

    def __init__(self, contestant: Contestant, python: str = sys.executable) -> None:
        self._command = [python, "-P", "-W", "ignore", "-m", "table.serve", contestant.builds]
        self._process: subprocess.Popen[str] | None = None

    def ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        """The answer.

        Raises:
            Late: it took longer than `seconds`, or the process died.
        """
        if self._process is None:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env={**os.environ, "PYTHONPATH": _FOLDER},
                start_new_session=True,
            )
        self._signal(signal.SIGCONT)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            if select.select([self._process.stdout], [], [], seconds)[0]:
                line = self._process.stdout.readline()
                if line:
                    found: dict[str, Any] = json.loads(line)
                    self._signal(signal.SIGSTOP)
                    return found
        except BrokenPipeError:
            pass
        died = self._process.poll() is not None
        self.kill()
        raise Late("its process died" if died else f"not ready within {seconds:g} s")

    def kill(self) -> None:
        """End it and all that it started."""
        if self._process is not None:
            self._signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

"""Time until workers are ready, and what an idle one holds in memory."""

from __future__ import annotations

import compileall
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import plangym_ext
import plangym_ext.envs
from stepping.cases import CARTPOLE, CHEETAH, PACMAN_RGB
from stepping.rounds import finding, interleaved, ratios

WORKERS = 8
#: What a program has to import that uses the env, and nothing else.
_IMPORTS = {
    "CartPole": "gymnasium.envs.classic_control.cartpole",
    "HalfCheetah": "gymnasium.envs.mujoco.half_cheetah_v5",
    "MsPacman RGB": "ale_py.env",
}


def measure(rounds: int) -> list[dict[str, Any]]:
    """Ratio of seconds for eight workers, and MiB per idle worker."""
    _compile_library()
    findings = []
    for case in (CARTPOLE, CHEETAH, PACMAN_RGB):
        memory: list[float] = []

        def ours(_: float, case: Any = case, memory: list[float] = memory) -> float:
            begun = time.perf_counter()
            env = case.make(backend="process", n_workers=WORKERS)
            taken = time.perf_counter() - begun
            memory += [_proportional_mib(worker.process.pid) for worker in env.batch_env]
            env.close()
            return taken

        def imports(_: float, module: str = _IMPORTS[case.name]) -> float:
            return _together(f"import gymnasium, {module}")

        def makes(_: float, case: Any = case, module: str = _IMPORTS[case.name]) -> float:
            return _together(f"import gymnasium, {module}; gymnasium.make({case.env_id!r})")

        found = interleaved(
            {"ours": ours, "imports": imports, "imports and make": makes}, rounds, 0.0
        )
        findings.append(
            finding(
                f"{case.name}, {WORKERS} workers ready / {WORKERS} imports",
                ratios(found["ours"], found["imports"]),
                "x",
                at_most=1.5,
                **{f"{key} s": seconds for key, seconds in found.items()},
            )
        )
        findings.append(finding(f"{case.name}, memory (PSS) of an idle worker", memory, "MiB"))
    return findings


def _compile_library() -> None:
    """Do what an installer does, and did for all else that is imported here.

    Where Python writes no bytecode, every worker of a checkout would compile the library.
    """
    for package in (plangym_ext, plangym_ext.envs):
        compileall.compile_dir(next(iter(package.__path__)), quiet=1)


def _together(program: str) -> float:
    """Seconds until eight processes have run a program."""
    command = [sys.executable, "-P", "-c", program]
    begun = time.perf_counter()
    started = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(WORKERS)]
    for process in started:
        process.wait()
    return time.perf_counter() - begun


def _proportional_mib(pid: int) -> float:
    """Memory of a process, pages that others map too in equal shares."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"no Pss in smaps_rollup of {pid}")

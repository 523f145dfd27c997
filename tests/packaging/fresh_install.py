"""A wheel in empty environments: what a stranger pays for the first minute.

`python tests/packaging/fresh_install.py WHEEL python3.11 python3.12 python3.13` makes a virtual
environment for each interpreter in a temporary folder, installs the wheel with the extra `cli`, and
runs the blocks of the README and a plan with its tree page in an empty folder, without caches. It
prints seconds of processor after the download; more than 60 is a failure.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from docs_fences import read_fences  # noqa: E402

#: Seconds of processor that installed wheels may take.
BOUND = 60.0


def used() -> float:
    """Return the seconds of processor of all ended children."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def first_minute(wheel: Path, interpreter: str) -> dict[str, float]:
    """Return the seconds of processor of each step: install, README, plan."""
    seconds = {}
    with tempfile.TemporaryDirectory() as place:
        python = f"{place}/venv/bin/python"
        env = {**os.environ, "HOME": place, "NUMBA_CACHE_DIR": f"{place}/cache"}
        empty = Path(place, "empty")
        empty.mkdir()
        fences = read_fences(ROOT / "README.md")
        blocks = json.dumps([fence for fence in fences if fence.tag in ("python", "output")])
        constraints = ["-c", str(ROOT / "constraints.txt")]
        plan = (
            "plan CartPole-v1 --planner mcts --max-steps 50 --seed 0 --out run --tree run/tree.html"
        )
        steps = {
            "venv": [interpreter, "-m", "venv", f"{place}/venv"],
            "install": [python, "-m", "pip", "install", "-q", *constraints, f"{wheel}[cli]"],
            "README": [python, "-P", str(ROOT / "tests/docs/run_fences.py"), "README.md"],
            "plan": [f"{place}/venv/bin/plangym-ext", *plan.split()],
        }
        for name, command in steps.items():
            begun = used()
            stdin = blocks if name == "README" else ""
            where = {"cwd": empty, "env": env, "stdout": subprocess.PIPE}
            subprocess.run(command, input=stdin, text=True, check=True, **where)
            seconds[name] = round(used() - begun, 1)
        assert (empty / "run" / "tree.html").stat().st_size > 1000
    return seconds


def main(wheel: str, *interpreters: str) -> int:
    """Print a line for each interpreter; return 1 if one takes longer than the bound."""
    slow = 0
    for interpreter in interpreters or [sys.executable]:
        seconds = first_minute(Path(wheel).resolve(), interpreter)
        after = seconds["README"] + seconds["plan"]
        slow += after > BOUND
        print(f"{interpreter}: {after:.1f} s after the installation", seconds, flush=True)
    return int(slow > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

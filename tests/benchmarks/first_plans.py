"""How long does a planner's first plan take where nothing has been compiled before?

    python tests/benchmarks/first_plans.py --out runs/first_plans.json --page docs/benchmarks.md

Every planner plans one move in a process of its own, with an empty folder for compiled code and
then with what the first process has left there: in an env with a kernel, and in the same env in a
worker process. Seconds are those of this process's own time on the processor, so that others on
the machine matter less; the smallest of the rounds counts. What is not measured again stays in
the file; the page is written from all that is there.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from stepping import machine
from table.sections import write_section

from plangym_ext.planners.registry import PLANNERS
from plangym_ext.run.files import write_json

#: Most seconds that a first plan should take.
AIM = 5.0
#: Of planners with continuous actions.
PENDULUM = {"random-shooting", "predictive-sampling", "cem", "icem", "mppi", "dial"}
#: They ask for a goal, a policy or levels, which these envs have not.
LEFT_OUT = {"best-first", "levin", "phs"}
NAMES = [name for name in PLANNERS if name not in LEFT_OUT]

PROGRAM = """
import json, sys, time
import plangym_ext
from plangym_ext.planners import load_planner

name, env_id, backend = sys.argv[1:]
n_workers = 1 if backend == "process" else None
with plangym_ext.make(env_id, backend=backend, n_workers=n_workers) as env:
    state, obs, _ = env.reset(seed=0)
    planner = load_planner(name)(num_simulations=32)
    begun = time.process_time()
    planner.plan(env, state, rng=0, obs=obs)
print(json.dumps(time.process_time() - begun))
"""


def seconds(name: str, env_id: str, backend: str, folder: str) -> float:
    """Seconds of the first plan of a process that keeps compiled code in `folder`."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, name, env_id, backend],
        env={**os.environ, "NUMBA_CACHE_DIR": folder, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return float(json.loads(done.stdout))


def measured(name: str, backend: str, rounds: int) -> dict[str, Any]:
    """One planner on one backend, without and with code from the disk."""
    env_id = "Pendulum-v1" if name in PENDULUM else "CartPole-v1"
    found = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            found.append([seconds(name, env_id, backend, folder) for _ in range(2)])
    first, later = map(min, zip(*found, strict=True))
    return {"env": env_id, "first": first, "later": later}


def part(kept: dict[str, Any]) -> str:
    """The part of the page of benchmarks."""
    about = ", ".join(f"{key} {value}" for key, value in kept["machine"].items())
    lines = [
        "## First plans\n",
        "`tests/benchmarks/first_plans.py` measures and writes this part: seconds of the processor",
        "that a planner's first plan of 32 simulations takes in a new process, where no compiled",
        "code has been kept, and, after the stroke, where the same plan has been made before.",
        "CartPole, or Pendulum for continuous actions, as a kernel and in a worker process; there",
        "the seconds are those of this process, not of its worker. A first plan should",
        f"take at most {AIM:g} s.\n",
        f"{kept['date']}; {about}.\n",
        "| planner | kernel | worker process |",
        "|---|---:|---:|",
    ]
    for name in NAMES:
        cells = [kept["found"].get(f"{name}, {backend}") for backend in ("kernel", "process")]
        if any(cells):
            texts = [f"{c['first']:.1f} / {c['later']:.2f}" if c else "" for c in cells]
            lines.append(f"| {name} | {texts[0]} | {texts[1]} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--backends", nargs="+", default=["kernel", "process"])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/first_plans.json"))
    parser.add_argument("--page", type=Path, help="docs/benchmarks.md, to write its part")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    kept = json.loads(options.out.read_text()) if options.out.exists() else {"found": {}}
    for name in options.only:
        for backend in options.backends:
            kept["found"][f"{name}, {backend}"] = measured(name, backend, options.rounds)
            about = machine.described() | machine.versions("numba")
            kept["machine"] = {key: value for key, value in about.items() if value is not None}
            kept["date"] = datetime.date.today().isoformat()
            write_json(options.out, kept)
            print(f"{name}, {backend}: {kept['found'][f'{name}, {backend}']}", flush=True)
    print(part(kept))
    if options.page:
        write_section(options.page, "first plans", part(kept))


if __name__ == "__main__":
    main()

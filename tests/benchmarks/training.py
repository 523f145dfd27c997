"""What agents learn, and how fast, beside Stable-Baselines3 with the same settings.

    python tests/benchmarks/training.py --sb3-python PATH --page docs/benchmarks.md

A cell is a task, who learns it, and a seed. Each is run in a process of its own and writes a
file; one that is there is not run again, so that the program goes on where it was stopped. A
table of interquartile means with bootstrap intervals is made of all files.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from agent_runs.cells import Cell, cells, results, run, summary
from agent_runs.page import page, reached
from agent_runs.tasks import LEARNING, SPEED, TASKS
from table.sections import write_section

from plangym_ext.run.files import write_json
from plangym_ext.run.settings import reached as kept_reached


def parsed() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", nargs="+", metavar="TEXT", help="tasks of that name, or whose name has it"
    )
    parser.add_argument("--speed", action="store_true", help="the tasks of speed, not of learning")
    parser.add_argument("--who", nargs="+", choices=["ours", "sb3"], default=["ours", "sb3"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument(
        "--sb3-python",
        default=sys.executable,
        metavar="PATH",
        help="an interpreter with stable_baselines3 (default: this one)",
    )
    parser.add_argument("--quick", action="store_true", help="some rounds of each, to try it")
    parser.add_argument(
        "--stop-after", type=float, default=float("inf"), help="seconds; begin no cell later"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/training"), help="folder of cells")
    parser.add_argument("--json", type=Path, help="write the summary of all cells here")
    parser.add_argument("--page", type=Path, help="docs/benchmarks.md, to write its part")
    parser.add_argument(
        "--presets", action="store_true", help="write what presets reached into the package"
    )
    return parser.parse_args()


def chosen(options: argparse.Namespace) -> list[Cell]:
    """Return the cells that are asked for."""
    names = list(SPEED if options.speed else LEARNING)
    if options.only:
        whole = [name for name in TASKS if name in options.only]
        names = whole or [name for name in TASKS if any(text in name for text in options.only)]
    return list(cells(names, options.seeds, options.who))


def main() -> int:
    options = parsed()
    options.out.mkdir(parents=True, exist_ok=True)
    asked = [cell for cell in chosen(options) if not (options.out / cell.file).exists()]
    has_sb3 = _has_sb3(options.sb3_python)
    failed, began = [], time.monotonic()
    for number, cell in enumerate(asked):
        if cell.who == "sb3" and not has_sb3:
            print(f"{cell.name}: left out, {options.sb3_python} has no stable_baselines3")
            continue
        if time.monotonic() - began > options.stop_after:
            print(f"stopped before {cell.file}; run it again to go on")
            break
        print(f"{cell.name}, {cell.who}, seed {cell.seed}: {number + 1} of {len(asked)}")
        sys.stdout.flush()
        try:
            run(cell, options.out, options.sb3_python, quick=options.quick)
        except subprocess.CalledProcessError as error:
            failed.append(f"{cell.file}: exit status {error.returncode}")
    found = summary(results(options.out))
    print(page(found))
    if options.json:
        write_json(options.json, found)
    if options.page:
        write_section(options.page, "training", page(found))
    if options.presets:
        write_json(kept_reached.FILE, reached(found, _preset_of))
    for line in failed:
        print(f"failed: {line}", file=sys.stderr)
    return 1 if failed else 0


def _preset_of(name: str) -> str | None:
    """Return the preset that a task trains unchanged, in all its steps; None: it does not."""
    task = LEARNING.get(name)
    return task.preset if task is not None and not task.changed else None


def _has_sb3(python: str) -> bool:
    """Return whether an interpreter has Stable-Baselines3."""
    asked = "import importlib.util as u, sys; sys.exit(u.find_spec('stable_baselines3') is None)"
    return subprocess.run([python, "-P", "-c", asked], check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())

"""What agents learn, and how fast, beside Stable-Baselines3 with the same settings.

    python tests/benchmarks/training.py --sb3-python PATH --page docs/benchmarks.md

A cell is a task, who learns it, and a seed. Each is run in a process of its own and writes a
file; one that is there is not run again, so that the program goes on where it was stopped. A
table of interquartile means with bootstrap intervals is made of all files, and of the runs in
`agent_runs/results.json`, which were kept of earlier ones; `--json` with its path keeps more.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from agent_runs.cells import RESULTS, cells, joined, run, summary
from agent_runs.comparing import Cell, parser, rows_of, run_left, tell
from agent_runs.page import page, reached
from agent_runs.tasks import LEARNING, SPEED, TASKS

from plangym_ext.run.commands import train
from plangym_ext.run.files import write_json


def parsed() -> Any:
    """Command line."""
    found = parser(
        __doc__,
        out="runs/training",
        seeds=5,
        only="tasks of that name, or whose name has it",
        quick="some rounds of each, to try it",
    )
    found.add_argument("--speed", action="store_true", help="the tasks of speed, not of learning")
    found.add_argument("--device", default="cpu", help="of networks and what they learn")
    found.add_argument(
        "--presets", action="store_true", help="write what presets reached into the package"
    )
    return found.parse_args()


def chosen(options: Any) -> list[Cell]:
    """Return the cells that are asked for."""
    names = list(SPEED if options.speed else LEARNING)
    if options.only:
        whole = [name for name in TASKS if name in options.only]
        names = whole or [name for name in TASKS if any(text in name for text in options.only)]
        if not names:
            sys.exit(f"training.py: --only {' '.join(options.only)}: no task of {', '.join(TASKS)}")
    return list(cells(names, options.seeds, options.who))


def main() -> int:
    options = parsed()
    failed = run_left(chosen(options), options, lambda cell: run(cell, options))
    found = summary(rows_of(options.out, "task", TASKS))
    if not options.quick:
        found = joined(json.loads(RESULTS.read_text()), found)
    if options.presets:
        write_json(train.FILE, reached(found, _preset_of))
    return tell(options, "training", page(found), found, failed)


def _preset_of(name: str) -> str | None:
    """Return the preset that a task trains unchanged, in all its steps; None: it does not."""
    task = LEARNING.get(name)
    return task.preset if task is not None and not task.changed else None


if __name__ == "__main__":
    sys.exit(main())

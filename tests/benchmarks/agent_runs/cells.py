"""Cells: a task, who learns it, and a seed; each is run in a process of its own."""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from stepping import machine

from agent_runs.sb3_settings import sb3_settings
from agent_runs.tasks import SPEED, TASKS, Task
from plangym_ext.run.files import write_json
from plangym_ext.run.settings.settings import plain

FOLDER = Path(__file__).parents[1]
#: Episodes of the evaluation after a training, and the seed of the first one.
EPISODES, FIRST_SEED = 50, 1_000_000
#: Steps of a run that shows no more than that the program works.
QUICK = 2048


class Cell(NamedTuple):
    """One run.

    Attributes:
        name: of the task.
        who: "ours" or "sb3".
        seed: of the run.
    """

    name: str
    who: str
    seed: int

    @property
    def task(self) -> Task:
        """What is learned."""
        return TASKS[self.name]

    @property
    def file(self) -> str:
        """Name of its file in the folder of results."""
        return file_name(self.name, self.who, self.seed)

    def settings(self, quick: bool) -> dict[str, Any]:
        """Return what the process is asked for."""
        config = self.task.config(self.seed)
        rounds = max(1, QUICK // config.steps_per_round) if quick else config.rounds
        if self.who == "ours":
            return {**plain(config), "rounds": rounds}
        steps = rounds * config.steps_per_round
        # Where speed is measured it has no monitor and no callback.
        return {**sb3_settings(config), "steps": steps, "bare": self.name in SPEED}


def file_name(name: str, who: str, seed: int) -> str:
    """Return the name of the file of one run."""
    return f"{re.sub('[^a-z0-9]+', '_', name.lower())}-{who}-{seed}.json"


def cells(names: list[str], seeds: list[int], who: list[str]) -> Iterator[Cell]:
    """Yield the cells of some tasks; those who are compared take turns."""
    for name in names:
        for seed in seeds:
            for one in TASKS[name].who:
                if one in who:
                    yield Cell(name, one, seed)


def run(cell: Cell, folder: Path, python: str, *, quick: bool) -> None:
    """Run a cell and write its file.

    Raises:
        subprocess.CalledProcessError: it failed; what it said is on standard error.
    """
    out = folder / cell.file
    settings = cell.settings(quick)
    episodes = 0 if cell.name in SPEED else EPISODES
    request = {"settings": settings, "episodes": episodes, "seed": FIRST_SEED}
    request["out"] = str(out.with_suffix(".run"))
    module = "agent_runs.our_run" if cell.who == "ours" else "agent_runs.sb3_run"
    interpreter = sys.executable if cell.who == "ours" else python
    before = machine.load()
    asked(interpreter, module, request, TASKS[cell.name].config(cell.seed).threads)
    found = json.loads(Path(request["out"]).read_text())
    about = {
        "task": cell.name,
        "who": cell.who,
        "seed": cell.seed,
        "date": datetime.date.today().isoformat(),
        "load": [before, machine.load()],
        "settings": settings,
    }
    write_json(out, {**about, **found})
    Path(request["out"]).unlink()


def asked(python: str, module: str, request: Mapping[str, Any], threads: int) -> None:
    """Run a module in a process of its own, which writes what it is asked for.

    Raises:
        subprocess.CalledProcessError: it failed; what it said is on standard error.
    """
    subprocess.run(
        [python, "-P", "-m", module],
        input=json.dumps(request),
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(FOLDER), "OMP_NUM_THREADS": str(threads)},
        stdout=subprocess.DEVNULL,
    )


def results(folder: Path) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Return what the files of a folder say: by task, and by who, in the order of seeds."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for path in sorted(folder.glob("*.json")):
        row = json.loads(path.read_text())
        found.setdefault(row["task"], {}).setdefault(row["who"], []).append(row)
    return {name: found[name] for name in TASKS if name in found}


def summary(rows: Mapping[str, dict[str, list[dict[str, Any]]]]) -> dict[str, Any]:
    """Return what is kept in the repository: no curves, one line per run."""
    kept = ("seed", "steps", "seconds", "training", "date", "load", "versions")
    return {
        name: {
            who: [
                {
                    **{key: row[key] for key in kept},
                    "evaluation": _mean(row["evaluation"]),
                }
                for row in runs
            ]
            for who, runs in by_who.items()
        }
        for name, by_who in rows.items()
    }


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None

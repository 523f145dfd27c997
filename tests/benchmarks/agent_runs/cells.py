"""Cells of `training.py`: what each is asked for, and what is kept of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agent_runs.bounds import FIRST_SEED
from agent_runs.comparing import WHO, Cell, run_apart
from agent_runs.sb3_settings import sb3_settings
from agent_runs.tasks import SPEED, TASKS
from plangym_ext.run.settings.settings import plain

#: Runs of earlier days, whose files may be on other machines.
RESULTS = Path(__file__).with_name("results.json")
#: Episodes of the evaluation after a training.
EPISODES = 50
#: Checkpoints of a run of ours, from the last of which it goes on if it is killed.
CHECKPOINTS = 20
#: Steps of a run that shows no more than that the program works.
QUICK = 2048


def cells(names: list[str], seeds: list[int], who: list[str]) -> Iterator[Cell]:
    """Yield the cells of some tasks; those who are compared take turns."""
    for name in names:
        for seed in seeds:
            for one in TASKS[name].who:
                if one in who:
                    yield Cell(name, one, seed)


def run(cell: Cell, options: Any) -> None:
    """Run a cell and write its file; see `run_apart`."""
    config = dataclasses.replace(TASKS[cell.name].config(cell.seed), device=options.device)
    rounds = max(1, QUICK // config.steps_per_round) if options.quick else config.rounds
    if cell.who == "ours":
        # None where speed is measured.
        every = 0 if cell.name in SPEED else max(1, rounds // CHECKPOINTS)
        settings = {**plain(config), "rounds": rounds, "checkpoint_every": every}
    else:
        steps = rounds * config.steps_per_round
        # Where speed is measured it has no monitor and no callback.
        settings = {**sb3_settings(config), "steps": steps, "bare": cell.name in SPEED}
    episodes = 0 if cell.name in SPEED else EPISODES
    request = {"settings": settings, "episodes": episodes, "seed": FIRST_SEED}
    run_apart(cell, options, "run", request, config.threads, {"task": cell.name})


def summary(rows: Mapping[str, dict[str, list[dict[str, Any]]]]) -> dict[str, Any]:
    """Return what is kept in the repository: one line per run, and the curves of some tasks."""
    kept = ("seed", "steps", "seconds", "training", "date", "load", "versions")
    return {
        name: {
            who: [
                {
                    **{key: row[key] for key in (*kept, *["curve"] * TASKS[name].has_curve)},
                    "evaluation": _mean(row["evaluation"]),
                }
                for row in runs
            ]
            for who, runs in by_who.items()
        }
        for name, by_who in rows.items()
    }


def joined(kept: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return two summaries as one; a new run replaces the kept one of its task, who and seed."""
    found: dict[str, Any] = {}
    for name in (name for name in TASKS if name in kept or name in new):
        of_both = (kept.get(name, {}), new.get(name, {}))
        found[name] = {who: _by_seed(*(runs.get(who, []) for runs in of_both)) for who in WHO}
        found[name] = {who: runs for who, runs in found[name].items() if runs}
    return found


def _by_seed(*lists: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return runs in the order of their seeds, of each seed the one that is named last."""
    found = {run["seed"]: run for runs in lists for run in runs}
    return [found[seed] for seed in sorted(found)]


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None

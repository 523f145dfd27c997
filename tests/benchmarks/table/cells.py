"""One cell of a table: its contestants, built and measured in turn."""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Sequence
from typing import Any

from stepping import machine
from stepping.rounds import interleaved

from table.contestants import Contestant, Late, Process, versions_of
from table.tasks import Task

#: Seconds until a contestant must have built its envs and made the steps of the warm-up.
PATIENCE = 40.0


def pythons_of(
    paths: list[str], contestants: Sequence[Contestant]
) -> tuple[dict[str, str], dict[str, str]]:
    """Which Python runs what needs a package, and what to say about it."""
    chosen: dict[str, str] = {"": sys.executable}
    said: dict[str, str] = {}
    for path in [sys.executable, *paths]:
        versions = versions_of(path)
        for name in sorted({who.needs for who in contestants} & set(versions) - set(chosen)):
            chosen[name] = path
            beside = {
                key: value for key, value in versions.items() if key in _BESIDE or key == name
            }
            said[name] = ", ".join(f"{key} {value}" for key, value in beside.items())
    return chosen, said


_BESIDE = ("numpy", "gymnasium", "mujoco", "ale_py", "torch")


def why_not(who: Contestant, task: Task, rows: int, chosen: dict[str, str]) -> str:
    """Why a contestant is not measured in a cell, "" if it is."""
    if who.needs not in chosen:
        return "not installed"
    if rows > who.largest:
        return f"one process for each row, no more than {who.largest}"
    if who.objects and rows > task.largest_of_objects:
        return f"one env object for each row, no more than {task.largest_of_objects}"
    return ""


def measure(
    task: Task,
    rows: int,
    contestants: Sequence[Contestant],
    processes: dict[str, Process],
    options: argparse.Namespace,
) -> dict[str, Any]:
    """All contestants of one cell."""
    load = [machine.load()]
    left_out: dict[str, str] = {}
    ready = {}
    for who in contestants:
        reason = why_not(who, task, rows, options.chosen)
        if not reason:
            process = processes.setdefault(who.key, Process(who, options.chosen[who.needs]))
            request = {"env_id": task.env_id, "rows": rows, "from_states": who.from_states}
            try:
                answer = process.ask(request, PATIENCE)
            except Late as late:
                answer = {"error": str(late)}
            if "not_here" in answer:
                continue
            reason = answer.get("error", "")
        if reason:
            left_out[who.key] = reason
        else:
            ready[who.key] = process

    def timed(process: Process) -> Any:
        return lambda seconds: process.ask({"seconds": seconds}, 60.0)["rate"]

    rates = interleaved(
        {key: timed(process) for key, process in ready.items()}, options.rounds, options.seconds
    )
    for process in ready.values():
        try:
            process.ask({}, PATIENCE)
        except Late:
            continue  # it is started afresh in the next cell
    load.append(machine.load())
    return {
        "settings": {"rounds": options.rounds, "seconds": options.seconds},
        "date": datetime.date.today().isoformat(),
        "load": load,
        "rates": rates,
        "left_out": left_out,
    }

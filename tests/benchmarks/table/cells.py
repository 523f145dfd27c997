"""One cell of a table: its contestants, built and measured in turn."""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from stepping import machine
from stepping.rounds import interleaved

from plangym_ext.run.progress import ProgressLine
from table.contestants import Contestant, Late, Process, versions_of
from table.tasks import Task

#: Seconds until a contestant must have built its envs and made the steps of the warm-up.
PATIENCE = 40.0


def add_options(parser: argparse.ArgumentParser, *, rounds: int, seconds: float, out: str) -> None:
    """Options of every program that measures cells.

    Args:
        parser: of the program.
        rounds: default of its rounds.
        seconds: default of how long one is measured in each.
        out: default of its file.
    """
    parser.add_argument("--peer-python", nargs="+", default=[], metavar="PATH")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--seconds", type=float, default=seconds, help="of each in each round")
    parser.add_argument(
        "--stop-after", type=float, default=float("inf"), help="seconds; begin no cell later"
    )
    parser.add_argument("--out", type=Path, default=Path(out))
    parser.add_argument("--page", type=Path, help="docs/benchmarks.md, to write its part")
    parser.add_argument("--again", action="store_true", help="measure what is there, too")


def kept_results(out: Path, peers: dict[str, str]) -> dict[str, Any]:
    """What the file has of this machine and these peers; nothing if they are others."""
    out.parent.mkdir(parents=True, exist_ok=True)
    kept: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}
    here = {key: value for key, value in machine.described().items() if key != "plangym"}
    here["numba"] = importlib.metadata.version("numba")
    if (kept.get("machine"), kept.get("peers")) != (here, peers):
        kept = {"machine": here, "peers": peers, "results": {}}
    return kept


def to_measure(
    names: Sequence[str],
    results: Collection[str],
    options: argparse.Namespace,
    line: ProgressLine,
) -> Iterator[str]:
    """Name the cells that are to be measured now, one after another, and say so.

    Args:
        names: of all cells.
        results: names of those that are in the file.
        options: of the program, see `add_options`.
        line: where it is said.
    """
    began = time.monotonic()
    for number, name in enumerate(names):
        if name in results and not options.again:
            continue
        if time.monotonic() - began > options.stop_after:
            line.update(f"stopped before {name}; run it again to go on", force=True)
            return
        line.update(f"measuring {name}, {number + 1} of {len(names)}", force=True)
        yield name


def measure_alone(
    task: Task, rows: int, contestants: Sequence[Contestant], options: argparse.Namespace
) -> dict[str, Any]:
    """Measure all contestants of one cell, in processes that end with it."""
    processes: dict[str, Process] = {}
    try:
        return measure(task, rows, contestants, processes, options)
    finally:
        for process in processes.values():
            process.kill()


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

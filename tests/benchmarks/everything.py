"""Steps per second against everything, in turn, on two processors.

    python tests/benchmarks/everything.py --peer-python PATH [PATH ...]

Ours on each backend, gymnasium's vector envs, EnvPool, Stable-Baselines3, TorchRL,
plangym and the raw simulator; plain stepping, and stepping from states. A peer runs in
the first Python that has it: ours or one of `--peer-python`, which need numpy and
gymnasium beside it. One without is left out. A cell (an env and a number of rows) that
is in the output file is not measured again, unless with --again. At the end its part of
the page of the documentation is written from all that is in the file.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from stepping import machine
from stepping.rounds import interleaved
from table.contestants import CONTESTANTS, Contestant, Late, Process, versions_of
from table.page import page
from table.sections import write_section
from table.tasks import TASKS, Task

from plangym_ext.run.files import write_json
from plangym_ext.run.progress import ProgressLine

#: 64 first: what an interrupted run leaves out is then the least interesting.
ROWS = (64, 1024, 16)
#: Seconds until a contestant must have built its envs and made the steps of the warm-up.
PATIENCE = 12.0


def pythons_of(paths: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Which Python runs what needs a package, and what to say about it."""
    chosen: dict[str, str] = {"": sys.executable}
    said: dict[str, str] = {}
    for path in [sys.executable, *paths]:
        versions = versions_of(path)
        for name in sorted({who.needs for who in CONTESTANTS} & set(versions) - set(chosen)):
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
    task: Task, rows: int, processes: dict[str, Process], options: argparse.Namespace
) -> dict[str, Any]:
    """All contestants of one cell."""
    load = [machine.load()]
    left_out: dict[str, str] = {}
    ready = {}
    for who in CONTESTANTS:
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


def parsed() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--envs", nargs="+", choices=[task.env_id for task in TASKS])
    parser.add_argument("--rows", nargs="+", type=int, choices=ROWS, default=ROWS)
    parser.add_argument("--peer-python", nargs="+", default=[], metavar="PATH")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.3, help="of each in each round")
    parser.add_argument(
        "--stop-after", type=float, default=float("inf"), help="seconds; begin no cell later"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/everything.json"))
    parser.add_argument("--page", type=Path, default=Path("docs/benchmarks.md"))
    parser.add_argument("--again", action="store_true", help="measure what is there, too")
    return parser.parse_args()


def main() -> None:
    options = parsed()
    began = time.monotonic()
    options.chosen, peers = pythons_of(options.peer_python)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    kept = json.loads(options.out.read_text()) if options.out.exists() else {}
    here = {key: value for key, value in machine.described().items() if key != "plangym"}
    here["numba"] = importlib.metadata.version("numba")
    if (kept.get("machine"), kept.get("peers")) != (here, peers):
        kept = {"machine": here, "peers": peers, "results": {}}
    results = kept["results"]
    processes: dict[str, Process] = {}
    line = ProgressLine()
    cells = [
        (task, rows)
        for rows in ROWS
        for task in TASKS
        if rows in options.rows
        and rows <= task.largest
        and (not options.envs or task.env_id in options.envs)
    ]
    try:
        for number, (task, rows) in enumerate(cells):
            name = f"{task.env_id} {rows}"
            if name in results and not options.again:
                continue
            if time.monotonic() - began > options.stop_after:
                line.update(f"stopped before {name}; run it again to go on", force=True)
                break
            line.update(f"measuring {name}, {number + 1} of {len(cells)}", force=True)
            results[name] = measure(task, rows, processes, options)
            write_json(options.out, kept)
    finally:
        for process in processes.values():
            process.kill()
    for name, cell in results.items():
        print(f"{name}: load {cell['load']}")
        for key, rates in cell["rates"].items():
            print(f"    {key:40} {statistics.median(rates):15,.0f} steps/s")
        for key, reason in cell["left_out"].items():
            print(f"    {key:40} left out: {reason}")
    peer_arguments = " ".join("PATH" for _ in options.peer_python)
    command = "python tests/benchmarks/everything.py"
    command = f"{command} --peer-python {peer_arguments}" if peers else command
    write_section(options.page, "speed", page(kept, command))
    line.end(f"{len(results)} cells are in {options.page}")


if __name__ == "__main__":
    main()

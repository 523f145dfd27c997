"""Steps per second against everything, in turn, on two processors.

    python tests/benchmarks/everything.py --peer-python PATH

Ours on each backend, gymnasium's vector envs, EnvPool, Stable-Baselines3, TorchRL,
plangym and the raw simulator; plain stepping, and stepping from states. A peer runs in
the first Python that has it: ours or one of `--peer-python`, which need numpy and
gymnasium beside it. One without is left out. A cell (an env and a number of rows) that
is in the output file is not measured again, unless with --again. With --page its part of
the page of the documentation is written from all that is in the file.
"""

from __future__ import annotations

import argparse
import statistics

from table.cells import add_options, kept_results, measure, pythons_of, to_measure
from table.contestants import CONTESTANTS, Process
from table.page import page
from table.sections import write_section
from table.tasks import TASKS

from plangym_ext.run.files import write_json
from plangym_ext.run.progress import ProgressLine

#: 64 first: what an interrupted run leaves out is then the least interesting.
ROWS = (64, 1024, 256, 16)


def parsed() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--envs", nargs="+", choices=[task.env_id for task in TASKS])
    parser.add_argument("--rows", nargs="+", type=int, choices=ROWS, default=ROWS)
    add_options(parser, rounds=3, seconds=0.3, out="runs/everything.json")
    return parser.parse_args()


def main() -> None:
    options = parsed()
    options.chosen, peers = pythons_of(options.peer_python, CONTESTANTS)
    kept = kept_results(options.out, peers)
    results = kept["results"]
    processes: dict[str, Process] = {}
    line = ProgressLine()
    cells = {
        f"{task.env_id} {rows}": (task, rows)
        for rows in ROWS
        for task in TASKS
        if rows in options.rows
        and rows in task.rows
        and (not options.envs or task.env_id in options.envs)
    }
    try:
        for name in to_measure(list(cells), results, options, line):
            task, rows = cells[name]
            results[name] = measure(task, rows, CONTESTANTS, processes, options)
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
    command = "python tests/benchmarks/everything.py --page docs/benchmarks.md"
    command = f"{command} --peer-python {peer_arguments}" if peers else command
    if options.page:
        write_section(options.page, "speed", page(kept, command))
    line.end(f"{len(results)} cells are in {options.out}")


if __name__ == "__main__":
    main()

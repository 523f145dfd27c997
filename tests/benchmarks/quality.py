"""What planners score at equal budgets, by published protocols.

    python tests/benchmarks/quality.py sokoban control atari --levels PATH

Episodes are played in processes of their own and kept in the JSON file as they end: run
the program again to go on after an interrupt. At the end its part of the page of the
documentation is written from all that is in the file.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import time
from pathlib import Path
from typing import Any

from scoring import atari, control, sokoban
from scoring.cells import Cell
from scoring.kept import Kept
from scoring.page import part, summary
from scoring.pool import played
from stepping import machine
from table.sections import write_section

from plangym_ext.run.progress import ProgressLine

PROTOCOLS = {"sokoban": sokoban, "control": control, "atari": atari}


def parsed() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("protocols", nargs="*", metavar="PROTOCOL", help=", ".join(PROTOCOLS))
    parser.add_argument("--levels", default="", help="Boxoban's unfiltered_test_000.txt")
    parser.add_argument("--tasks", nargs="+", help="only these games or envs")
    parser.add_argument("--planners", nargs="+", help="only these")
    parser.add_argument("--seeds", type=int, help="fewer episodes of each cell")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--stop-after", type=float, default=float("inf"), help="seconds; begin nothing later"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/quality.json"))
    parser.add_argument("--page", type=Path, help="docs/benchmarks.md, to write its part")
    options = parser.parse_args()
    for name in options.protocols:
        if name not in PROTOCOLS:
            parser.error(f"protocol must be one of {', '.join(PROTOCOLS)}; got {name!r}")
    if "sokoban" in options.protocols and not Path(options.levels).is_file():
        parser.error(f"sokoban needs --levels, a file of levels; got {options.levels!r}")
    return options


def wanted(options: argparse.Namespace) -> list[Cell]:
    """The cells that were asked for."""
    found = [c for name in options.protocols for c in PROTOCOLS[name].cells(options.seeds)]
    return [
        cell
        for cell in found
        if (not options.tasks or cell.task in options.tasks)
        and (not options.planners or cell.planner in options.planners)
    ]


def described() -> dict[str, Any]:
    """Machine and versions."""
    here = {key: value for key, value in machine.described().items() if key != "plangym"}
    return here | {"numba": importlib.metadata.version("numba")}


def main() -> None:
    options = parsed()
    began, line = time.monotonic(), ProgressLine()
    kept = Kept(options.out, described())
    tasks = [(cell, seeds) for cell in wanted(options) for seeds in kept.missing(cell)]
    stop = lambda: time.monotonic() - began > options.stop_after  # noqa: E731
    for cell, rows in played(tasks, options.processes, options.levels, stop, line):
        kept.add(cell, rows)
        line.update(summary(cell, kept.episodes(cell)), force=True)
    line.end(f"{time.monotonic() - began:.0f} s")
    for cell in wanted(options):
        if kept.episodes(cell):
            print(summary(cell, kept.episodes(cell)))
    if options.page:
        write_section(options.page, "quality", part(kept))
        print(f"wrote its part of {options.page}")


if __name__ == "__main__":
    main()

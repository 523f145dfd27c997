"""What planners reach in the Control Suite's tasks, beside what is learned there.

    python tests/benchmarks/control.py

It is planning with the true model: nothing is learned, and the planner steps the simulator
itself from its exact state. Episodes are kept in the JSON file, the first steps of one that was
interrupted too: run the program again to go on with the next. `--page docs/benchmarks.md`
writes its part of that page.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scoring import suite
from scoring.cells import Cell
from scoring.kept import Kept
from stepping import machine
from table.sections import write_section

from plangym_ext.run.progress import ProgressLine

_COMMAND = "python tests/benchmarks/control.py"
_TEXT = """\
## Continuous control with the true model

Planning, not learning: before each decision the planner plays sequences of actions in the
simulator itself, from its exact state, and keeps nothing but its last plan. TD-MPC2 and SAC
have no simulator to ask; their figures are means of 3 seeds at a million steps, from the CSVs
published with TD-MPC2. Each action is held for two env steps, as theirs are; a model step is
one such decision. Episodes have 1,000 env steps, so the most there is to earn is 1,000; what
stands with fewer is the return of so many first steps. Options are those that `plangym-ext
plan` begins with in these envs (`planners/options.py`), tried out on the first steps of seed 0, in
`hopper-hop` of 1 and 3. The machine did other work meanwhile, so seconds are upper bounds. iCEM's
horizon in `cheetah-run` is 30 decisions, 0.6 s: with 18 it starts faster and earns 745 and 693, as
it runs into poor gaits; with 30 and 448 sequences it is at full speed after two seconds and stays
there. From most starts of `hopper-hop` no sequence that is tried earns anything: there
`novelty_bonus` lets the episode go where it has not been, until it can stand up and hop for some
decisions; what follows is a fall, which pays more within the horizon than staying on its foot.
"""


def parsed() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", nargs="+", choices=suite.LEARNED, default=list(suite.LEARNED))
    parser.add_argument("--planners", nargs="+", choices=suite.PLANNERS, default=["icem"])
    parser.add_argument("--seeds", type=int, default=1, help="episodes of each")
    parser.add_argument(
        "--steps", type=int, default=suite.EPISODE_STEPS, help="env steps of an episode"
    )
    parser.add_argument(
        "--stop-after", type=float, default=float("inf"), help="seconds; begin nothing later"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/control.json"))
    parser.add_argument("--page", type=Path, help="docs/benchmarks.md, to write its part")
    return parser.parse_args()


def summary(cell: Cell, rows: list[dict[str, Any]]) -> str:
    """One line about a cell."""
    return f"{cell.key}: {' | '.join(suite.figures(rows))}"


def part(kept: Kept) -> Iterator[str]:
    """The part of the page, in Markdown, from all that is kept."""
    yield _TEXT
    yield f"\n```sh\n{_COMMAND}\n```\n\n"
    yield "| task | TD-MPC2 | SAC | planner | env steps | return | episodes | model steps a "
    yield "decision | seconds a decision |\n|---|---:|---:|---|---:|---:|---:|---:|---:|\n"
    machines: set[str] = set()
    for task, learned in suite.LEARNED.items():
        for planner in suite.PLANNERS:
            rows, steps = _longest(kept, task, planner)
            if not rows:
                continue
            described = ", ".join(f"{key} {value}" for key, value in rows[0]["machine"].items())
            machines.add(f"- {rows[0]['date']}: {described}.\n")
            others = " | ".join("" if one is None else str(one) for one in learned)
            figures = " | ".join(suite.figures(rows))
            yield f"| {task} | {others} | {planner} | {steps:,} | {figures} |\n"
    yield from _verdict(kept)
    yield from sorted(machines)


def _verdict(kept: Kept) -> Iterator[str]:
    """Say in which tasks whole episodes earned more than TD-MPC2's."""
    best: dict[str, float] = {}
    for task in suite.LEARNED:
        for planner in suite.PLANNERS:
            rows, steps = _longest(kept, task, planner)
            if steps == suite.EPISODE_STEPS:
                mean = sum(row["score"] for row in rows) / len(rows)
                best[task] = max(best.get(task, mean), mean)
    above = [task for task, mean in best.items() if mean > suite.LEARNED[task][0]]
    yield (
        f"\nOf {len(suite.LEARNED)} tasks, {len(above)} have whole episodes above TD-MPC2's return "
        f"({', '.join(above) or 'none'}),\nby means of the few episodes that the table counts.\n\n"
    )


def _longest(kept: Kept, task: str, planner: str) -> tuple[list[dict[str, Any]], int]:
    """What is kept of a planner in a task: the longest episodes, and their env steps."""
    for steps in sorted({int(key.split()[1]) for key in kept.cells}, reverse=True):
        rows = list(kept.episodes(suite.cell_of(task, planner, 1, steps)).values())
        if rows:
            return rows, steps
    return [], 0


def described() -> dict[str, Any]:
    """Machine and versions."""
    return {key: value for key, value in machine.described().items() if key != "plangym"}


def play(cell: Cell, seed: int, steps: int, kept: Kept, line: ProgressLine) -> None:
    """Play an episode, and keep it, its first steps too: an interrupt loses little."""

    def say(text: str) -> None:
        line.update(f"{cell.key} {seed}: {text}")

    def keep(rows: dict[str, Any], so_far: int) -> None:
        kept.add(dataclasses.replace(cell, protocol=f"suite, {so_far} steps"), rows)

    suite.run(cell, seed, steps, say, keep)


def main() -> None:
    options = parsed()
    began, line = time.monotonic(), ProgressLine()
    kept = Kept(options.out, described())
    wanted = [
        suite.cell_of(task, planner, options.seeds, options.steps)
        for task in options.tasks
        for planner in options.planners
    ]
    for cell in wanted:
        for (seed,) in kept.missing(cell):
            if time.monotonic() - began > options.stop_after:
                continue
            play(cell, seed, options.steps, kept, line)
    line.end(f"{time.monotonic() - began:.0f} s")
    for cell in wanted:
        if kept.episodes(cell):
            print(summary(cell, list(kept.episodes(cell).values())))
    if options.page:
        write_section(options.page, "control", "".join(part(kept)))
        print(f"wrote its part of {options.page}")


if __name__ == "__main__":
    main()

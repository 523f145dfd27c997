"""Does a policy learn sooner from a planner than by PPO, at equal model steps and equal seconds?

    python tests/benchmarks/expert.py --page docs/benchmarks.md

Runs of PPO and of expert iteration in tasks, judged now and then by 20 episodes of the best
actions. Model steps are those that were played, and those of searches; seconds are those of the
processor, in which the process played, searched and learned, so that others on the machine matter
less. What is finished is kept in the folder, so that the program goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from learning_from_planners.learning import learned
from learning_from_planners.tasks import TASKS
from table.sections import write_section

from plangym_ext.run.bootstrap import mean_interval
from plangym_ext.run.files import write_json


def parsed() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="tasks by name")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--quick", action="store_true", help="few steps, to try it")
    parser.add_argument(
        "--finished", action="store_true", help="run nothing: the table of what is there"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/expert"), help="folder of cells")
    parser.add_argument("--page", type=Path, help="docs/benchmarks.md, to write its part")
    return parser.parse_args()


def at_most(curve: list[list[float]], column: int, most: float) -> float:
    """Return what the last judgement said before a budget was spent.

    Args:
        curve: model steps, seconds and mean return of each judgement.
        column: of the budget.
        most: of it.
    """
    within = [point for point in curve if point[column] <= most]
    return (within or curve[:1])[-1][2]


def shown(values: list[float]) -> str:
    """Return a mean and its interval."""
    mean, low, high = mean_interval(values)
    digits = 2 if max(map(abs, (mean, low, high))) < 10 else 0
    return f"{mean:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def page(found: dict[str, dict[str, list[dict[str, Any]]]]) -> str:
    """Return the table."""
    lines = [
        "## Against PPO",
        "",
        "`tests/benchmarks/expert.py`: mean return of 20 episodes of the network's best actions",
        "(NarrowPath: of drawn ones), without a search, at the last judgement before a budget was",
        "spent; mean over the seeds, and its 95 % interval, bootstrapped. Half and all of the",
        "model steps, searches counted; half and all of the seconds of one processor, without",
        "those of judgements. `load` is that of the machine of two processors when cells were",
        "finished: others worked on it.",
        "",
        "| task | learner | seeds | half of steps | all steps | half of seconds | all seconds | "
        "steps a second | load |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, kinds in found.items():
        task = TASKS[name]
        for kind, runs in kinds.items():
            cells = [
                shown([at_most(run["curve"], column, share * most) for run in runs])
                for column, most in ((0, task.steps), (1, task.seconds))
                for share in (0.5, 1.0)
            ]
            rate = sum(run["curve"][-1][0] / run["curve"][-1][1] for run in runs) / len(runs)
            load = sum(run["load"] for run in runs) / len(runs)
            lines.append(
                f"| {name}, {task.steps:,} steps, {task.seconds} s | {kind} | {len(runs)} | "
                f"{' | '.join(cells)} | {rate:,.0f} | {load:.1f} |"
            )
    return "\n".join(lines)


def main() -> None:
    options = parsed()
    options.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, dict[str, list[Any]]] = {}
    for name, task in TASKS.items():
        if not any(text in name for text in options.only):
            continue
        for seed in options.seeds:
            for kind in task.learners:
                file = options.out / f"{name}-{kind}-{seed}.json".replace(" ", "_")
                if not file.exists():
                    if options.finished:
                        continue
                    print(f"{name}, {kind}, {seed}", flush=True)
                    share = 0.02 if options.quick else 1.0
                    write_json(file, learned(task, kind, seed, share))
                runs = found.setdefault(name, {}).setdefault(kind, [])
                runs.append(json.loads(file.read_text()))
    print(page(found))
    if options.page:
        write_section(options.page, "expert", page(found))


if __name__ == "__main__":
    main()

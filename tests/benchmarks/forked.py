"""Are advantages of branches from visited states better than those of what was played?

    python tests/benchmarks/forked.py --page docs/benchmarks.md

First the error of single estimates, for the same states and actions of a trained policy, and what
an estimate costs. Then PPO with the advantages of GAE and of branches, with common random numbers
and without, at equal steps of the env, those of branches counted. What is finished is kept in the
folder, so that the program goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from forking.learning import KINDS, SHARES, TASKS, learned
from forking.variance import measured
from table.sections import write_section

from plangym_ext.run.bootstrap import mean_interval
from plangym_ext.run.files import write_json


def parsed() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="tasks by name")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--quick", action="store_true", help="few steps and states, to try it")
    parser.add_argument(
        "--finished", action="store_true", help="run nothing: the tables of what is there"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/forked"), help="folder of cells")
    parser.add_argument("--page", type=Path, help="docs/benchmarks.md, to write its part")
    return parser.parse_args()


def cell(file: Path, options: argparse.Namespace, make: Any) -> Any:
    """Return what is in a file; make it if it is not there. None if it is not to be made."""
    if not file.exists():
        if options.finished:
            return None
        print(file.stem, flush=True)
        write_json(file, make())
    return json.loads(file.read_text())


def variance_table(found: dict[str, dict[str, Any]]) -> list[str]:
    """Return the lines about single estimates."""
    lines = [
        "| task | estimate | steps | variance | squared error | correlation | error x steps |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for task, rows in found.items():
        least = rows["GAE 0.95"]["error"]
        for name, row in rows.items():
            if name == "truth":
                continue
            lines.append(
                f"| {task} | {name} | {row['steps']:.1f} | {row['variance']:.3g} | "
                f"{row['error']:.3g} | {row['correlation']:.2f} | "
                f"{row['error'] * row['steps'] / least:.2f} |"
            )
    return lines


def learning_table(found: dict[str, dict[str, list[dict[str, Any]]]]) -> list[str]:
    """Return the lines about runs."""
    shares = " | ".join(f"{share:.0%} of steps" for share in SHARES)
    lines = [
        f"| task | steps | advantages | seeds | {shares} | updates | seconds |",
        f"|---|---:|---|---:|{'---:|' * len(SHARES)}---:|---:|",
    ]
    for task, kinds in found.items():
        for kind, runs in kinds.items():
            cells = []
            for i in range(len(SHARES)):
                mean, low, high = mean_interval([run["returns"][i] for run in runs])
                cells.append(f"{mean:.0f} [{low:.0f}, {high:.0f}]")
            steps = max(run["steps"][-1] for run in runs)
            updates = sum(run["updates"] for run in runs) // len(runs)
            seconds = sum(run["seconds"] for run in runs) / len(runs)
            lines.append(
                f"| {task} | {steps:,} | {kind} | {len(runs)} | {' | '.join(cells)} | "
                f"{updates:,} | {seconds:.0f} |"
            )
    return lines


def page(variances: dict[str, Any], runs: dict[str, Any]) -> str:
    """Return both tables."""
    lines = [
        "## Advantages of branches",
        "",
        "`tests/benchmarks/forked.py`: estimates of the advantages of the same 256 actions in",
        "states that a policy of PPO came through, each 16 times, against a truth of 64 branches",
        "of 200 steps with common random numbers. `steps` of the env are those of one estimate: a",
        "step that is played gives one by GAE, k branches give k. What the critic's value is off",
        "by is an error of GAE and of Monte Carlo (GAE with λ = 1), and not of differences of",
        "branches; in a policy gradient it is noise, and no bias. The last column is squared error",
        "times steps, in units of GAE's: below 1, equal steps pay for the better mean.",
        "",
        *variance_table(variances),
        "",
        "PPO, judged by 20 episodes of the best actions; mean over the seeds and its 95 %",
        "interval, bootstrapped. Steps are those of envs and branches together; the learning rate",
        "falls to 0 with them. What is played in a round: 8 x 32 steps on CartPole with GAE and",
        "8 x 16 with branches, 64 x 32 on Hopper (as the preset does) and 32 x 8.",
        "",
        *learning_table(runs),
    ]
    return "\n".join(lines)


def main() -> None:
    options = parsed()
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    variances: dict[str, Any] = {}
    runs: dict[str, dict[str, list[Any]]] = {}
    for name, task in TASKS.items():
        if not any(text in name for text in options.only):
            continue
        make = lambda task=task: measured(task, quick=options.quick)  # noqa: E731
        found = cell(options.out / f"{task.env_id}-variance.json", options, make)
        if found is not None:
            variances[name] = found
        steps = 2_000 if options.quick else task.steps
        for seed in options.seeds:
            for number, kind in enumerate(KINDS):
                file = options.out / f"{task.env_id}-{number}-{seed}.json"
                make = lambda t=task, k=kind, s=seed, n=steps: learned(t, k, s, n)  # noqa: E731
                found = cell(file, options, make)
                if found is not None:
                    runs.setdefault(name, {}).setdefault(kind, []).append(found)
    print(page(variances, runs))
    if options.page:
        write_section(options.page, "forked", page(variances, runs))


if __name__ == "__main__":
    main()

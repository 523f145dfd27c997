"""What are the critics of PPO worth? Their values against returns from the same states.

    python tests/benchmarks/audit.py --page docs/benchmarks.md

Runs of presets are stopped after some rounds, and their agents play on from states that they come
through. What is finished is kept in the folder, so that the program goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from table.sections import write_section

from plangym_ext.run.cli import main as plangym_ext
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.runner import Runner

#: Task -> preset and rounds.
TASKS = {
    "CartPole, PPO after 20 rounds": ("ppo_cartpole", 20),
    "CartPole, PPO after 60 rounds": ("ppo_cartpole", 60),
    "HalfCheetah, PPO after 100 rounds": ("ppo_halfcheetah", 100),
}
_COLUMNS = ("rank_correlation", "explained_variance", "bias", "rmse", "noise")


def parsed() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="tasks by name")
    parser.add_argument("--quick", action="store_true", help="few rounds and states, to try it")
    parser.add_argument("--out", type=Path, default=Path("runs/audit"), help="folder of runs")
    parser.add_argument("--page", type=Path, help="docs/benchmarks.md, to write its part")
    return parser.parse_args()


def audited(preset: str, rounds: int, options: argparse.Namespace) -> dict[str, Any]:
    """Train if that is not done, audit if that is not done; return the numbers."""
    folder = options.out / f"{preset}-{rounds}"
    if not (folder / "audit.json").exists():
        settings = {"rounds": 1 if options.quick else rounds, "evaluation": {"every": 0}}
        with Runner(compose([preset, settings]), folder, resume=True) as runner:
            runner.run()
        size = ["--count", "100", "--rollouts", "8", "--max-steps", "500"]
        if options.quick:
            size = ["--count", "4", "--rollouts", "2", "--max-steps", "10"]
        assert plangym_ext(["audit", str(folder), *size]) == 0
    found: dict[str, Any] = json.loads((folder / "audit.json").read_text())
    return found


def page(found: dict[str, dict[str, Any]]) -> str:
    """Return the table."""
    lines = [
        "## What critics are worth",
        "",
        "`tests/benchmarks/audit.py`: values of 100 states that an agent comes through, against",
        "the mean discounted return of 8 rollouts from each, by `plangym-ext audit`. The critic of",
        "HalfCheetah learned from normalised rewards: of it the order alone can be compared.",
        "",
        f"| task | {' | '.join(name.replace('_', ' ') for name in _COLUMNS)} | steps |",
        f"|---|{'---:|' * len(_COLUMNS)}---:|",
    ]
    for name, numbers in found.items():
        cells = [f"{numbers[column]:.3g}" for column in _COLUMNS]
        lines.append(f"| {name} | {' | '.join(cells)} | {numbers['steps']:,} |")
    return "\n".join(lines)


def main() -> None:
    options = parsed()
    found = {
        name: audited(*task, options)
        for name, task in TASKS.items()
        if any(text in name for text in options.only)
    }
    print(page(found))
    if options.page:
        write_section(options.page, "audit", page(found))


if __name__ == "__main__":
    main()

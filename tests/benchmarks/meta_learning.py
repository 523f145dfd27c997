"""Does an agent adapt to a task that it has not seen within three episodes?

    python tests/benchmarks/meta_learning.py --page docs/benchmarks_learning.md

PEARL, SAC without a context, and RL^2 learn point robots with 80 goals in trials of two episodes,
and play trials of three with 20 others. The table has the mean return of each episode of a trial,
with 95 % intervals over seeds. Runs go on where they were stopped.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from table.sections import write_section

from plangym_ext.run.files import write_json
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.runner import Runner
from plangym_ext.run.training.trained import Trained

EPISODES, STEPS, TASKS = 3, 20, 20
_HEADING = """## Adapting to tasks that were not seen

`tests/benchmarks/meta_learning.py`: a point robot that is not told its goal learns 80 goals, and
plays 80 trials of three episodes with 20 others. Mean returns of an episode."""
_SAC: dict[str, Any] = {
    "agent": {"name": "soft_policy", "hidden": [128, 128]},
    "algorithm": {
        "name": "sac",
        "critic_hidden": [128, 128],
        "discount": 0.6,
        "learning_rate": 0.001,
        "target_rate": 0.02,
        "temperature": 0.02,
        "batch_size": 512,
        "updates_per_step": 0.075,
        "learning_starts": 2_000,
    },
}
#: Name in the table -> preset, and what differs.
LEARNERS: dict[str, tuple[str, dict[str, Any]]] = {
    "PEARL": ("pearl_point_robot", {}),
    "SAC without a context": ("pearl_point_robot", _SAC),
    "RL^2": ("rl2_point_robot", {}),
}


def parsed() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="learners by name")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, help="of each run; else those of the preset")
    parser.add_argument("--out", type=Path, default=Path("runs/meta"), help="folder of the runs")
    parser.add_argument("--page", type=Path, help="docs/benchmarks_learning.md, to write its part")
    return parser.parse_args()


def measured(name: str, seed: int, folder: Path, rounds: int | None) -> dict[str, Any]:
    """Train a learner, if it is not there; return steps, and the returns `[trials][episodes]`."""
    preset, changed = LEARNERS[name]
    settings: dict[str, Any] = {"seed": seed, "evaluation": {"every": 0}}
    if rounds is not None:
        settings["rounds"] = rounds
    path = folder / f"{name.replace(' ', '_')}-{seed}"
    with Runner(compose([preset, changed, settings]), path, resume=True, show=False) as runner:
        runner.run()
        steps = runner.steps
    with Trained(path, env={"episodes": EPISODES}) as trained:
        trained.max_steps = EPISODES * STEPS
        played = trained.play(4 * TASKS)
    returns = [np.reshape(one.rewards, (EPISODES, STEPS)).sum(axis=1).tolist() for one in played]
    return {"steps": steps, "returns": returns}


def table(found: dict[str, list[dict[str, Any]]]) -> str:
    """Return the table of what was run."""
    lines = [
        _HEADING,
        "",
        "| learner | steps | seeds | first episode | second | third |",
        "|---|---|---|---|---|---|",
    ]
    for name, runs in found.items():
        # Of each seed the mean over trials: seeds are what intervals are over.
        means = np.array([np.mean(run["returns"], axis=0) for run in runs])
        cells = []
        for episode in range(EPISODES):
            column = means[:, episode]
            half = 1.96 * column.std(ddof=1) / np.sqrt(len(column)) if len(column) > 1 else np.nan
            cells.append(f"{column.mean():.2f}" + (f" ± {half:.2f}" if len(column) > 1 else ""))
        lines.append(f"| {name} | {runs[0]['steps']:,} | {len(runs)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, and write the table."""
    options = parsed()
    found: dict[str, list[dict[str, Any]]] = {}
    for name in LEARNERS:
        if not any(text in name for text in options.only):
            continue
        for seed in range(options.seeds):
            cell = options.out / f"{name.replace(' ', '_')}-{seed}.json"
            if not cell.exists():
                write_json(cell, measured(name, seed, options.out, options.rounds))
            found.setdefault(name, []).append(json.loads(cell.read_text()))
    print(table(found))
    if options.page is not None:
        write_section(options.page, "meta-learning", table(found))


if __name__ == "__main__":
    main()

"""How much narrower are intervals of differences if both players play the same episodes?

    python tests/benchmarks/paired.py --page docs/benchmarks.md

Two players of each task play the same episodes: begun by reset with equal seeds, and from the same
stored states, through which the first of them comes. The table has the width of the 95 % interval
of their difference, of pairs and of the same returns as if they were no pairs. What is finished is
kept in the folder, so that the program goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from table.sections import write_section

from plangym_ext.planners import visited_states
from plangym_ext.run.evaluating.contest import Contest, difference
from plangym_ext.run.files import write_json
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.runner import Runner


class Task(NamedTuple):
    """Two players of one env."""

    env_id: str
    #: Presets and the rounds after which they are taken, or planners by name and options.
    players: tuple[tuple[str, int] | str, tuple[str, int] | str]
    episodes: int
    max_steps: int


TASKS = {
    "CartPole, PPO after 60 and 70 rounds": Task(
        "CartPole-v1", (("ppo_cartpole", 60), ("ppo_cartpole", 70)), 100, 500
    ),
    "HalfCheetah, PPO after 100 and 120 rounds": Task(
        "HalfCheetah-v5", (("ppo_halfcheetah", 100), ("ppo_halfcheetah", 120)), 100, 1000
    ),
    "HalfCheetah, the same, 100 steps": Task(
        "HalfCheetah-v5", (("ppo_halfcheetah", 100), ("ppo_halfcheetah", 120)), 100, 100
    ),
    "MsPacman, rollout-iw and shooting, 100 model steps a move": Task(
        "ALE/MsPacman-v5",
        ("rollout-iw:max_model_steps=100", "shooting:max_model_steps=100"),
        30,
        100,
    ),
}
KINDS = ("seeds", "states")


def parsed() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="tasks by name")
    parser.add_argument("--quick", action="store_true", help="few rounds and episodes, to try it")
    parser.add_argument(
        "--finished", action="store_true", help="play nothing: the table of what is there"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/paired"), help="folder of cells")
    parser.add_argument("--page", type=Path, help="docs/benchmarks.md, to write its part")
    return parser.parse_args()


def trained(preset: str, rounds: int, folder: Path) -> str:
    """Return the folder of a run after so many rounds; train it if it is not there."""
    path = folder / f"{preset}-{rounds}"
    settings = {"rounds": rounds, "evaluation": {"every": 0}, "checkpoint_every": 50}
    with Runner(compose([preset, settings]), path, resume=True, show=False) as runner:
        runner.run()
    return str(path)


def measured(task: Task, kind: str, folder: Path, *, quick: bool) -> dict[str, Any]:
    """Play a task; return the returns of both and the intervals of their difference."""
    names = []
    for player in task.players:
        if isinstance(player, str):
            names.append(player)
        else:
            preset, rounds = player
            names.append(trained(preset, max(1, rounds // 50) if quick else rounds, folder))
    episodes = 4 if quick else task.episodes
    most = 5 if quick else task.max_steps
    with Contest(names, env_id=task.env_id, max_steps=most) as contest:
        starts = None
        if kind == "states":
            first = contest.players[names[0]]
            starts = visited_states(
                contest.env, first, episodes, seed=1000, max_steps=most, num_episodes=20
            )
        returns = [
            [one.return_ for one in contest.play(name, episodes, seed=0, starts=starts)]
            for name in names
        ]
    return {
        "episodes": episodes,
        "returns": returns,
        "correlation": _correlation(*returns),
        **difference(*returns),
    }


def _correlation(first: list[float], second: list[float]) -> float | None:
    """Return how alike the returns of pairs are; None where those of a player are all the same."""
    if min(np.std(first), np.std(second)) == 0.0:
        return None
    return float(np.corrcoef(first, second)[0, 1])


def page(found: dict[str, dict[str, Any]]) -> str:
    """Return the table."""
    lines = [
        "## Players compared on the same episodes",
        "",
        "`tests/benchmarks/paired.py`: two players on the same episodes, begun by reset with equal",
        "seeds, or from the same states, drawn from those through which the first one comes.",
        "Widths are those of the 95 % interval of the difference of mean returns, bootstrapped.",
        "The last column says how many times the episodes that width takes without pairs. What is",
        "earned from a state on is less than in a whole episode: widths of the two kinds of",
        "beginnings are of different differences.",
        "",
        "| task | episodes | begun by | difference | width, pairs | width, no pairs | ratio | "
        "correlation | episodes saved |",
        "|---|---:|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, row in found.items():
        task, _, kind = name.rpartition(" / ")
        pairs, apart = row["high"] - row["low"], row["unpaired_high"] - row["unpaired_low"]
        alike = "" if row["correlation"] is None else f"{row['correlation']:.2f}"
        ratio = pairs / apart if apart else float("nan")
        saved = f"{ratio**-2:.1f}x" if ratio else ""
        lines.append(
            f"| {task} | {row['episodes']} | {kind} | {row['mean']:+.1f} | {pairs:.1f} | "
            f"{apart:.1f} | {ratio:.2f} | {alike} | {saved} |"
        )
    return "\n".join(lines)


def main() -> None:
    options = parsed()
    options.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, dict[str, Any]] = {}
    for number, (name, task) in enumerate(TASKS.items()):
        if not any(text in name for text in options.only):
            continue
        for kind in KINDS:
            file = options.out / f"{number}-{kind}.json"
            if options.finished and not file.exists():
                continue
            if not file.exists():
                print(f"{name}, {kind}", flush=True)
                write_json(file, measured(task, kind, options.out, quick=options.quick))
            found[f"{name} / {kind}"] = json.loads(file.read_text())
    print(page(found))
    if options.page:
        write_section(options.page, "paired", page(found))


if __name__ == "__main__":
    main()

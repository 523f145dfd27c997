"""What does planning with the true model add to an agent that was trained?

    python tests/benchmarks/planned_agents.py --page docs/benchmarks.md

An agent learns to run, which takes hours; then whole episodes are played by it, by a planner
alone, and by the same planner with the agent's values, with its policy, and with both. All of it
goes on where it was interrupted: the training from its last checkpoint, episodes are kept in the
JSON file one by one.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scoring.cells import Cell, row_of
from scoring.kept import Kept
from stepping import machine
from table.sections import write_section

from plangym_ext.planners import ICEM, play
from plangym_ext.run.progress import ProgressLine
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.runner import Runner
from plangym_ext.run.training.trained import Trained, asking

TASK, ACTION_REPEAT, MOVES = "walker-run", 2, 500
#: TD-MPC2 and SAC at a million env steps, 3 seeds: the CSVs published with TD-MPC2.
PUBLISHED = {"TD-MPC2": 842, "SAC": 635}
#: Of the agent: SAC with the settings of its preset, in products of bfloat16.
TRAINING: list[Any] = [
    "sac_halfcheetah",
    {
        "env": {
            "id": f"plangym_ext/{TASK}-v0",
            "frameskip": ACTION_REPEAT,
            "max_steps": MOVES,
        },
        "algorithm": {"precision": "bfloat16"},
        "evaluation": {"every": 1250, "episodes": 3},
        "checkpoint_every": 1250,
    },
]
#: Of the planner, in all of its lines: many short sequences, as values see what follows.
OPTIONS: dict[str, Any] = {
    "num_simulations": 512,
    "horizon": 5,
    "iterations": 6,
    "init_std": 0.5,
    "num_elites": 20,
    "noise_beta": 0.5,
}
#: What it takes of the agent, by line of the table.
ASKED = {
    "iCEM alone": (),
    "iCEM, the agent's values": ("evaluator",),
    "iCEM, the agent's policy": ("policy",),
    "iCEM, both": ("evaluator", "policy"),
}
AGENT = "the agent alone"

_TEXT = f"""\
## Planning beyond an agent

`tests/benchmarks/planned_agents.py` measures and writes this part: `{TASK}` of the Control Suite,
each action held for {ACTION_REPEAT} env steps. An agent is trained by SAC; a planner with the true
model is then given what it has learned: what its critics say of the end of a sequence, and the
sequence that its policy would play. The planner's options are the same in all lines; they were
tried in the first 60 decisions of seed 0. Beside it stands what is published of learning alone,
at a million env steps.

```sh
python tests/benchmarks/planned_agents.py
```
"""


def parsed() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2], help="an episode each")
    parser.add_argument(
        "--players", nargs="+", choices=[AGENT, *ASKED], default=[AGENT, *ASKED], metavar="PLAYER"
    )
    parser.add_argument("--moves", type=int, default=MOVES, help="decisions of an episode")
    parser.add_argument(
        "--rounds", type=int, default=31_250, help="of the training, 16 decisions each"
    )
    parser.add_argument(
        "--run", type=Path, default=Path("runs/planned_agents/run"), help="folder of the training"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/planned_agents/episodes.json"))
    parser.add_argument("--page", type=Path, help="docs/benchmarks.md, to write its part")
    return parser.parse_args()


def cell_of(player: str, options: argparse.Namespace) -> Cell:
    """A line of the table."""
    chosen = {"rounds": options.rounds, "moves": options.moves}
    if player != AGENT:
        chosen |= OPTIONS
    return Cell("planned agents", TASK, player, chosen, tuple((seed,) for seed in options.seeds))


def player_of(name: str, trained: Trained) -> Any:
    """What plays in a line of the table."""
    if name == AGENT:
        return trained.player
    whole = asking(ICEM, trained.path, trained.env, OPTIONS)
    left_out = {option: None for option in ("evaluator", "policy") if option not in ASKED[name]}
    return dataclasses.replace(whole, **left_out)


def run(cell: Cell, seed: int, trained: Trained, line: ProgressLine) -> dict[str, Any]:
    """Play an episode."""
    begun, moves = time.perf_counter(), cell.options["moves"]

    def say(move: Any) -> None:
        line.update(f"{cell.key} {seed}: move {move.step + 1} of {moves}, {move.total:.1f}")

    player = player_of(cell.planner, trained)
    episode = play(trained.env, player, seed=seed, max_steps=moves, callback=say)
    return {str(seed): row_of(episode, seconds=time.perf_counter() - begun)}


def part(kept: Kept, cells: list[Cell], steps: int) -> Iterator[str]:
    """The part of the page, in Markdown; the agent has played so many env steps."""
    yield f"{_TEXT}\nThe agent has played {steps:,} env steps; an episode has "
    yield f"{cells[0].options['moves']} decisions.\n\n"
    yield "| player | return | episodes | model steps a decision | seconds a decision |\n"
    yield "|---|---:|---:|---:|---:|\n"
    for name, published in PUBLISHED.items():
        yield f"| {name}, published | {published} | 3 seeds |  |  |\n"
    machines = set()
    for cell in cells:
        rows = list(kept.episodes(cell).values())
        if rows:
            machines |= {f"{row['date']}: {described(row['machine'])}" for row in rows}
            yield f"| {cell.planner} | {' | '.join(_figures(rows))} |\n"
    yield "\n" + "".join(f"- {one}.\n" for one in sorted(machines))


def _figures(rows: list[dict[str, Any]]) -> Iterator[str]:
    decisions = sum(row["length"] for row in rows)
    yield f"{sum(row['score'] for row in rows) / len(rows):,.1f}"
    yield str(len(rows))
    yield f"{sum(row['model_steps'] for row in rows) / decisions:,.0f}"
    yield f"{sum(row['seconds'] for row in rows) / decisions:.2f}"


def described(parts: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in parts.items())


def main() -> None:
    options = parsed()
    training = compose([*TRAINING, {"rounds": options.rounds}])
    with Runner(training, options.run, resume=True, show=True) as runner:
        runner.run()
    about = {key: value for key, value in machine.described().items() if key != "plangym"}
    kept, line = Kept(options.out, about), ProgressLine()
    with Trained(options.run) as trained:
        steps = options.rounds * training.steps_per_round * ACTION_REPEAT
        cells = [cell_of(name, options) for name in [AGENT, *ASKED]]
        for cell in cells:
            for (seed,) in kept.missing(cell) if cell.planner in options.players else []:
                kept.add(cell, run(cell, seed, trained, line))
    text = "".join(part(kept, cells, steps))
    line.end(text)
    if options.page:
        write_section(options.page, "planned agents", text)
        print(f"wrote its part of {options.page}")


if __name__ == "__main__":
    main()

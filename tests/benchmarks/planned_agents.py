"""What does planning with the true model add to an agent that was trained?

    python tests/benchmarks/planned_agents.py --page docs/benchmarks.md

An agent learns a task, which takes an hour or more; then whole episodes are played by it, by a
planner alone, and by the same planner with the agent's values, with its policy, and with both. All
of it goes on where it was interrupted: the training from its last checkpoint, episodes are kept
in a JSON file one by one.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scoring import hopper_starts, suite
from scoring.cells import Cell, row_of
from scoring.kept import Kept
from stepping import machine
from table.sections import write_section

import plangym_ext
from plangym_ext.planners import ICEM, play
from plangym_ext.planners.evaluators import from_value
from plangym_ext.run.progress import ProgressLine
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.checkpoints import Checkpoints
from plangym_ext.run.training.runner import Runner
from plangym_ext.run.training.trained import Trained, asking

MOVES = 500
AGENT, KNOWN = "the agent alone", "iCEM, a value of standing"
#: What the planner takes of the agent, by line of the table.
ASKED: dict[str, tuple[str, ...]] = {
    "iCEM alone": (),
    KNOWN: (),
    "iCEM, the agent's values": ("evaluator",),
    "iCEM, the agent's policy": ("policy",),
    "iCEM, both": ("evaluator", "policy"),
}


@dataclass(frozen=True)
class Task:
    """A task of the Control Suite.

    Args:
        rounds: of the training, 16 decisions each.
        options: of the planner, in all of its lines.
        value: of the ends of sequences, `obs [n, *obs] -> [n]`, that is known without learning;
            states that a planner comes to with it are the agent's starts. None: there is none.
        share: of the training's episodes that begin in those states.
        critic_hidden: widths of the layers of critics, which are normalised.
    """

    rounds: int
    options: dict[str, Any]
    value: Callable[[Any], Any] | None = None
    share: float = 0.0
    critic_hidden: tuple[int, ...] = (256, 256)


TASKS = {
    # Short sequences, as values see what follows.
    "walker-run": Task(
        31_250,
        {
            "num_simulations": 512,
            "horizon": 5,
            "iterations": 6,
            "init_std": 0.5,
            "num_elites": 20,
            "noise_beta": 0.5,
        },
        critic_hidden=(512, 512),
    ),
    "hopper-hop": Task(
        20_625,
        {
            "num_simulations": 384,
            "horizon": 5,
            "iterations": 5,
            "init_std": 0.25,
            "num_elites": 16,
            "noise_beta": 0.5,
        },
        hopper_starts.standing,
        share=0.97,
    ),
}

_TEXT = f"""\
## Planning beyond an agent

`tests/benchmarks/planned_agents.py` measures and writes this part: tasks of the Control Suite,
each action held for {suite.ACTION_REPEAT} env steps. An agent is trained by SAC, whose critics have
normalised layers (`critic_layer_norm`); a planner with the true model is then given what it has
learned: what its critics say of the end of a sequence, and the sequence that its policy would play.
The planner's options are the same in all lines of a task; they were tried in the first decisions of
seed 0 and, in `hopper-hop`, of 1, with earlier agents. There hardly anything is earned by chance:
97 of 100 episodes of that agent begin in states that iCEM came to with a value that is known
without learning, of standing: the torso far above the foot, and upright. They are short.
Published returns are of learning alone, at a million env steps.

```sh
python tests/benchmarks/planned_agents.py
```
"""


def parsed() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2], help="an episode each")
    parser.add_argument(
        "--players", nargs="+", choices=[AGENT, *ASKED], default=[AGENT, *ASKED], metavar="PLAYER"
    )
    parser.add_argument("--moves", type=int, default=MOVES, help="decisions of an episode")
    parser.add_argument("--rounds", type=int, help="of each training, 16 decisions each")
    parser.add_argument(
        "--folder", type=Path, default=Path("runs/planned_agents"), help="of trainings and episodes"
    )
    parser.add_argument("--device", default="cpu", help="of the trainings")
    parser.add_argument("--page", type=Path, help="docs/benchmarks.md, to write its part")
    return parser.parse_args()


def train(task: str, rounds: int, folder: Path, device: str, line: ProgressLine) -> None:
    """Train an agent, unless that was done; go on with what there is."""
    run = folder / task
    if Checkpoints(run).path(rounds).exists():
        return
    starts = folder / f"{task}-starts.npz"
    if TASKS[task].value is not None and not starts.exists():
        env_id = suite.env_id(task)
        with plangym_ext.make(env_id, frameskip=suite.ACTION_REPEAT, threads=1) as env:
            hopper_starts.gathered(env, line.update).save(starts, env)
    settings = dataclasses.replace(training(task, rounds, starts), device=device)
    with Runner(settings, run, resume=True, show=True) as runner:
        runner.run()


def training(task: str, rounds: int, starts: Path) -> Any:
    """SAC with the settings of its preset, but for the layers of the critics and bfloat16."""
    env = {"id": suite.env_id(task), "frameskip": suite.ACTION_REPEAT, "max_steps": MOVES}
    changed: dict[str, Any] = {
        "env": env,
        "algorithm": {
            "precision": "bfloat16",
            "critic_hidden": list(TASKS[task].critic_hidden),
            "critic_layer_norm": True,
        },
        "evaluation": {"every": 1250, "episodes": 3},
        "rounds": rounds,
        "checkpoint_every": 1250,
    }
    if TASKS[task].value is not None:
        changed["starts"] = {"file": str(starts), "share": TASKS[task].share}
        changed["algorithm"] |= {"learning_starts": 5_000}
        changed["checkpoint_every"] = 625
    return compose(["sac_halfcheetah", changed])


def cell_of(task: str, player: str, options: argparse.Namespace) -> Cell:
    """A line of a table."""
    chosen = {"rounds": options.rounds or TASKS[task].rounds, "moves": options.moves}
    if player != AGENT:
        chosen |= TASKS[task].options
    return Cell("planned agents", task, player, chosen, tuple((seed,) for seed in options.seeds))


def player_of(cell: Cell, trained: Trained) -> Any:
    """What plays in a line of a table."""
    task = TASKS[cell.task]
    if cell.planner == AGENT:
        return trained.player
    if cell.planner == KNOWN:
        assert task.value is not None
        return ICEM(evaluator=from_value(task.value), **task.options)
    whole = asking(ICEM, trained.path, trained.env, task.options)
    asked = ASKED[cell.planner]
    left_out = {option: None for option in ("evaluator", "policy") if option not in asked}
    return dataclasses.replace(whole, **left_out)


def run(cell: Cell, seed: int, trained: Trained, line: ProgressLine) -> dict[str, Any]:
    """Play an episode."""
    begun, moves = time.perf_counter(), cell.options["moves"]

    def say(move: Any) -> None:
        line.update(f"{cell.key} {seed}: move {move.step + 1} of {moves}, {move.total:.1f}")

    episode = play(trained.env, player_of(cell, trained), seed=seed, max_steps=moves, callback=say)
    return {str(seed): row_of(episode, seconds=time.perf_counter() - begun)}


def lines_of(task: str, options: argparse.Namespace) -> list[Cell]:
    """The lines of the table of a task."""
    has_value = TASKS[task].value is not None
    names = [name for name in (AGENT, *ASKED) if has_value or name != KNOWN]
    return [cell_of(task, name, options) for name in names]


def part(kept: Kept, options: argparse.Namespace) -> Iterator[str]:
    """The part of the page, in Markdown."""
    yield _TEXT
    machines = set()
    for task in TASKS:
        cells = lines_of(task, options)
        rows = [row for cell in cells for row in kept.episodes(cell).values()]
        machines |= {f"{row['date']}: {_described(row['machine'])}" for row in rows}
        if rows:
            yield from _table(task, cells, kept)
    yield "\n" + "".join(f"- {one}.\n" for one in sorted(machines))


def _table(task: str, cells: list[Cell], kept: Kept) -> Iterator[str]:
    rounds, moves = (cells[0].options[name] for name in ("rounds", "moves"))
    steps = rounds * 16 * suite.ACTION_REPEAT
    yield f"\n`{task}`, an agent of {steps:,} env steps, episodes of {moves} decisions:\n\n"
    yield "| player | return | episodes | model steps a decision | seconds a decision |\n"
    yield "|---|---:|---:|---:|---:|\n"
    for name, published in zip(("TD-MPC2", "SAC"), suite.LEARNED[task], strict=True):
        yield f"| {name}, published | {published} | 3 seeds |  |  |\n"
    above = []
    for cell in cells:
        rows = list(kept.episodes(cell).values())
        if rows:
            yield f"| {cell.planner} | {' | '.join(suite.figures(rows))} |\n"
            if statistics.mean(row["score"] for row in rows) > suite.LEARNED[task][0]:
                above.append(cell.planner)
    yield f"\nAbove TD-MPC2's return: {', '.join(above) or 'none'}.\n"


def _described(parts: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in parts.items())


def main() -> None:
    options = parsed()
    about = {key: value for key, value in machine.described().items() if key != "plangym"}
    kept, line = Kept(options.folder / "episodes.json", about), ProgressLine()
    for task in options.tasks:
        cells = [cell for cell in lines_of(task, options) if cell.planner in options.players]
        rounds = options.rounds or TASKS[task].rounds
        train(task, rounds, options.folder, options.device, line)
        with Trained(options.folder / task) as trained:
            for cell in cells:
                for (seed,) in kept.missing(cell):
                    kept.add(cell, run(cell, seed, trained, line))
    text = "".join(part(kept, options))
    line.end(text)
    if options.page:
        write_section(options.page, "planned agents", text)
        print(f"wrote its part of {options.page}")


if __name__ == "__main__":
    main()

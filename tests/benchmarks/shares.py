"""Where the time of a training run goes: env, network, losses, optimiser, and what is ours.

    python tests/benchmarks/shares.py --page docs/benchmarks.md

Clocks are put around the parts of a run; what is left of its time is what plangym-ext adds:
sampler, replay, returns, minibatches, log. Each run is made with and without clocks, in turn.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import statistics
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agent_runs.clocks import PARTS, Clocks
from agent_runs.tasks import SPEED, Task
from stepping import machine
from table.sections import section_rows, write_section

from plangym_ext.run.files import write_json
from plangym_ext.run.settings.config import RunConfig
from plangym_ext.run.training.callbacks import Callback
from plangym_ext.run.training.runner import Runner

#: What is ours is to be so much of the time, at most.
_AIM = 0.1
TASKS = {name.removeprefix("speed: "): task for name, task in SPEED.items()} | {
    "sac HalfCheetah x1, an update a step": Task(
        "sac_halfcheetah", 1_500, changed={"algorithm": {"learning_starts": 500}}
    ),
}


class _SecondHalf(Callback):
    """Looks at the clocks from the middle of a run on, when everything is warm.

    Attributes:
        found: seconds of all, and by part, and steps.
    """

    def __init__(self, clocks: Clocks, rounds: int) -> None:
        self._clocks, self._middle = clocks, rounds // 2
        self._began = (0.0, 0)
        self.found: dict[str, float] = {}

    def on_round(self, runner: Any, values: Any) -> None:
        now = time.perf_counter()
        if runner.round == self._middle:
            self._clocks.clear()
            self._began = (now, runner.steps)
        if runner.round == runner.config.rounds:
            spent, steps = now - self._began[0], runner.steps - self._began[1]
            self.found = {"all": spent, "steps": steps, **self._clocks.seconds}


def run(config: RunConfig, *, clocked: bool) -> dict[str, float]:
    """Return what the second half of a run took."""
    clocks = Clocks()
    half = _SecondHalf(clocks, config.rounds)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        if clocked:
            stack.enter_context(clocks.set())
        stack.enter_context(Runner(config, folder, callbacks=[half], show=False)).run()
    return half.found


def measured(task: Task, rounds: int, *, quick: bool) -> dict[str, Any]:
    """Return shares of the time, and the rate with clocks over that without: of medians."""
    config = task.config(seed=0)
    if quick:
        config = dataclasses.replace(config, rounds=4)
    before = machine.load()
    found = {"clocked": [], "plain": []}
    for _ in range(rounds):
        for name, runs in found.items():
            runs.append(run(config, clocked=name == "clocked"))
    shares = {
        part: statistics.median(one[part] / one["all"] for one in found["clocked"])
        for part in PARTS
    }
    rates = {
        name: statistics.median(one["steps"] / one["all"] for one in runs)
        for name, runs in found.items()
    }
    clocks = rates["clocked"] / rates["plain"]
    return {"shares": shares, "clocks": clocks, "load": [before, machine.load()]}


def row(name: str, found: dict[str, Any]) -> str:
    """Return a row of the table."""
    shares = [*found["shares"].values(), 1 - sum(found["shares"].values())]
    cells = [f"`{name}`", f"{found['clocks']:.2f}", *(f"{one:.1%}" for one in shares)]
    return f"| {' | '.join(cells)} |"


def page(rows: Iterable[str]) -> str:
    """The part of the page of benchmarks."""
    lines = [
        "## Where the time of training goes",
        "",
        "`tests/benchmarks/shares.py`: clocks around the parts of a run, from its middle on. The",
        "env is the vector env's step; forward is the network and drawing actions, where it plays",
        "or is asked for values; losses are those of the updates, forwards and backwards; target",
        "networks belong to the optimiser. Ours is all the rest: sampler, replay, returns,",
        "minibatches, log. How fast whole runs are says [the table above](#how-fast) alone: rates",
        "from here would be of another part of a run, on another day. That with clocks over that",
        "without says what the clocks cost.",
        f"It is to be {_AIM:.0%} at most. It is more where rounds are short: one of A2C is 5 steps",
        "of 8 envs, 1.3 ms, and one of DQN 16 steps of one env, so that what is done once a round,",
        "or once a step for one row, weighs more.",
        "",
        "| run | with clocks over without | env | forward | losses | optimiser | ours |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    return "\n".join([*lines, *rows])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", metavar="TEXT", help="runs whose name has it")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="some rounds of each, to try it")
    parser.add_argument("--out", type=Path, default=Path("runs/shares.json"))
    parser.add_argument(
        "--page", type=Path, help="docs/benchmarks.md, to write its part; keeps other rows"
    )
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    kept = json.loads(options.out.read_text()) if options.out.exists() else {}
    for name, task in TASKS.items():
        if not options.only or any(text in name for text in options.only):
            kept[name] = measured(task, options.rounds, quick=options.quick)
            write_json(options.out, kept)
    rows = section_rows(options.page, "shares") if options.page else {}
    rows |= {name: row(name, found) for name, found in kept.items()}
    text = page(rows[name] for name in TASKS if name in rows)
    print(text)
    if options.page:
        write_section(options.page, "shares", text)


if __name__ == "__main__":
    main()

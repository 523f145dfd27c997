"""Steps and updates per second of runs that play and learn in turn, and at once, at equal ratios.

    python tests/benchmarks/asynchronous.py --page docs/scaling.md

In both modes the learner has one thread of torch. Rates are medians over the last rounds: in those
before, as many as `collector.lead` asks for, workers do not yet play ahead. The ratios are those of
all updates to the steps that were taken in after learning began, and to those that were played,
which may be a fragment more; the age is that of the weights that played, in updates, when their
fragment was taken in. With `--out`, the table also has what was measured before of other presets.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from table.sections import write_section

from plangym_ext.run.files import write_json
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.callbacks import Callback
from plangym_ext.run.training.runner import Runner

#: Preset -> steps before something is learned, and rounds that are timed.
TASKS = {"sac_halfcheetah": (256, 100), "td3_halfcheetah": (256, 100), "dqn_atari": (640, 60)}
HEADER = """| preset | mode | steps/s | updates/s | updates per step taken in, played | age |
|---|---|---|---|---|---|"""


class Timed(Callback):
    """Notes when rounds with updates end, and the ages."""

    def __init__(self) -> None:
        self.ends: list[float] = []
        self.ages: list[float] = []

    def on_round(self, runner: Any, values: Any) -> None:
        if "train/q" in values:
            self.ends.append(time.perf_counter())
            self.ages.append(values.get("policy_age", 0.0))


def parsed() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--rounds", type=int, help="that are timed, instead of those of each task")
    parser.add_argument("--page", type=Path, help="write the table into this page")
    parser.add_argument("--out", type=Path, help="write all figures here, as JSON")
    return parser.parse_args()


def measured(preset: str, mode: str, rounds: int) -> dict[str, Any]:
    """Return the figures of a preset in a mode."""
    starts, _ = TASKS[preset]
    algorithm = {"learning_starts": starts, "capacity": 20_000}
    config = compose([preset, {"mode": mode, "algorithm": algorithm, "evaluation": {"every": 0}}])
    steps = config.steps_per_round
    before = math.ceil(1 / config.collector.lead) + 1 if mode == "async" else 1
    total = starts // steps + before + rounds
    config = replace(config, rounds=total, checkpoint_every=0)
    timed = Timed()
    with (
        tempfile.TemporaryDirectory() as folder,
        Runner(config, folder, callbacks=[timed], show=False) as runner,
    ):
        runner.run()
        updates = runner.algorithm.updates
    ends = timed.ends[-rounds - 1 :]
    rate = steps / statistics.median(b - a for a, b in itertools.pairwise(ends))
    assert config.algorithm is not None
    taken = total * steps - starts
    played = taken + (steps if mode == "async" else 0)
    return {
        "steps": rate,
        "updates": rate * config.algorithm.config.updates_per_step,
        "ratios": [updates / taken, updates / played],
        "age": statistics.median(timed.ages[-rounds:]),
    }


def row(preset: str, mode: str, found: dict[str, Any]) -> str:
    """Return a row of the table."""
    taken, played = found["ratios"]
    return (
        f"| `{preset}` | {mode} | {found['steps']:,.0f} | {found['updates']:,.0f} | {taken:.4f}, "
        f"{played:.4f} | {found['age']:.0f} |"
    )


def main() -> None:
    options = parsed()
    found: dict[str, dict[str, Any]] = {}
    if options.out and options.out.exists():
        found = json.loads(options.out.read_text())
    for preset in options.only:
        rounds = options.rounds or TASKS[preset][1]
        found[preset] = {}
        for mode in ("sync", "async"):
            found[preset][mode] = measured(preset, mode, rounds)
            print(row(preset, mode, found[preset][mode]), flush=True)
    if options.page:
        rows = [row(name, *pair) for name in TASKS if name in found for pair in found[name].items()]
        write_section(options.page, "asynchronous", "\n".join([HEADER, *rows]))
    if options.out:
        write_json(options.out, found)


if __name__ == "__main__":
    main()

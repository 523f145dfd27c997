"""Steps per second of one learner and of two, at equal batches in all, and how far they differ.

    python tests/benchmarks/learners.py --page docs/scaling.md

One process plays all envs and learns from whole batches; two play half of the envs each and learn
from half of each batch. Both have one thread of torch each. The difference is the largest of any
weight between two learners and one process that draws as they do (`many_learners/reference.py`),
after the first round with updates: later ones are played by weights that differ. Rounds before the
first update are not timed. Rows of presets that are not measured (`--only`) stay on the page.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from many_learners.reference import Reference, difference
from table.sections import section_rows, write_section

from plangym_ext.run.files import write_json
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.settings.config import RunConfig
from plangym_ext.run.training.callbacks import Callback
from plangym_ext.run.training.runner import Runner

#: Preset -> what a learner of two has, and rounds to be timed.
TASKS: dict[str, tuple[dict[str, Any], int]] = {
    "ppo_halfcheetah": ({"collector": {"num_envs": 32}, "algorithm": {"batch_size": 32}}, 4),
    "sac_halfcheetah": (
        {
            "collector": {"num_envs": 1, "moves": 16},
            "algorithm": {"batch_size": 128, "learning_starts": 256, "capacity": 20_000},
        },
        10,
    ),
    "ppo_atari": ({"collector": {"num_envs": 4}, "algorithm": {"batch_size": 128}}, 1),
}
HEADER = """| preset | batch | weights | 1 learner | 2 learners | 2 / 1 | largest difference |
|---|---|---|---|---|---|---|"""


class Timed(Callback):
    """Notes when rounds of updates end."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_round(self, runner: Any, values: Any) -> None:
        if values["updates"]:
            self.ends.append(time.perf_counter())


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


def settings(preset: str, rounds: int, learners: int) -> RunConfig:
    """Return the settings of so many learners, with equal envs and batches in all."""
    half, _ = TASKS[preset]
    sources: list[Any] = [preset, half]
    if learners == 1:
        whole = {"num_envs": 2 * half["collector"]["num_envs"]}
        batch = {"batch_size": 2 * half["algorithm"]["batch_size"]}
        sources.append({"collector": whole, "algorithm": batch})
    started = half["algorithm"].get("learning_starts", 0)
    # One thread each: two learners of two threads would wait for each other.
    sources.append({"learners": learners, "threads": 1})
    config = compose(sources)
    before = -(-started // config.steps_per_round)
    changed = {"rounds": before + rounds + 1, "checkpoint_every": 0, "evaluation": {"every": 0}}
    return compose([*sources, changed])


def run(config: RunConfig) -> tuple[float, Any]:
    """Return the steps per second of the rounds with updates but the first, and the network."""
    timed = Timed()
    with (
        tempfile.TemporaryDirectory() as folder,
        Runner(config, folder, callbacks=[timed], show=False) as runner,
    ):
        runner.run()
        rounds = [after - before for before, after in itertools.pairwise(timed.ends)]
        rate = config.steps_per_round / statistics.median(rounds) if rounds else 0.0
        return rate, runner.network


def measured(preset: str, rounds: int) -> dict[str, Any]:
    """Return the figures of a preset."""
    config = settings(preset, rounds, 2)
    one, _ = run(settings(preset, rounds, 1))
    two, _ = run(config)
    short = settings(preset, 0, 2)
    _, network = run(short)
    reference = Reference(short)
    reference.run()
    reference.close()
    assert config.algorithm is not None
    return {
        "batch": 2 * config.algorithm.config.batch_size,
        "weights": sum(part.numel() for part in network.parameters()),
        "one": one,
        "two": two,
        "updates": reference.algorithm.updates,
        "difference": difference(network, reference.algorithm.network),
    }


def row(preset: str, found: dict[str, Any]) -> str:
    """Return a row of the table."""
    one, two = found["one"], found["two"]
    return (
        f"| `{preset}` | {found['batch']} | {found['weights']:,} | {one:,.0f} steps/s | "
        f"{two:,.0f} steps/s | {two / one:.2f} | {found['difference']:.0e} after "
        f"{found['updates']} updates |"
    )


def main() -> None:
    options = parsed()
    found: dict[str, dict[str, Any]] = {}
    if options.out and options.out.exists():  # what was measured before, of other presets
        found = json.loads(options.out.read_text())
    for preset in options.only:
        found[preset] = measured(preset, options.rounds or TASKS[preset][1])
        print(row(preset, found[preset]), flush=True)
    if options.page:
        rows = section_rows(options.page, "learners")
        rows |= {preset: row(preset, one) for preset, one in found.items()}
        lines = [rows[preset] for preset in TASKS if preset in rows]
        write_section(options.page, "learners", "\n".join([HEADER, *lines]))
    if options.out:
        write_json(options.out, found)


if __name__ == "__main__":
    main()

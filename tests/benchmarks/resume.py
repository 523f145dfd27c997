"""Does a run that is killed again and again end like one that was not?

    python tests/benchmarks/resume.py --presets all --kills 10 --rounds 40

A training run of each preset is killed with SIGKILL and started again with `--resume`, as often
as `--kills` says; then it may end. The moments are random: of its start, its rounds, its
evaluations and its checkpoints. Its last checkpoint, every number in it
(weights, optimiser, normalisers, replay, episodes in progress), and its log must be those of a
run that was never killed, bit for bit. Exits with 1 if they are not.

What is large runs at reduced size, and arrays of a replay are split in small blocks, so that
checkpoints share them.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from resuming.stages import CHECKPOINT, EVALUATION, ROUNDS, STAGES, START, Stages
from table.sections import write_section

from plangym_ext import learn
from plangym_ext.run import cli
from plangym_ext.run.files import write_json
from plangym_ext.run.settings.compose import PRESETS, compose
from plangym_ext.run.settings.sections import ALGORITHMS
from plangym_ext.run.training import block_files
from plangym_ext.run.training.checkpoints import Checkpoints, read_checkpoint

EVERY = 2
SETTINGS = {
    "evaluation.every": 4,
    "evaluation.episodes": 3,
    "evaluation.stop_at": "none",
    "checkpoint_every": EVERY,
}
PLANS = {"collector.num_envs": 8, "algorithm.learning_starts": 64}
#: Of Atari: a network of 32 features, and a few steps of two games.
SMALL_GAMES = {
    "agent.hidden": 32,
    "collector.num_envs": 2,
    "collector.moves": 16,
    "env.max_steps": 20,
}
#: Learning begins with the second round, and the ring is written over.
EARLY = {"algorithm.learning_starts": 16, "algorithm.capacity": 200}
SMALL_GAMES_REPLAY = {
    **SMALL_GAMES,
    **EARLY,
    "algorithm.batch_size": 8,
    "algorithm.updates_per_step": 0.1,
}
SMALL_CRITICS = {**EARLY, "algorithm.batch_size": 32, "env.max_steps": 60}
#: So that a round of what is large takes no more than a moment.
SMALLER: dict[str, dict[str, Any]] = {
    "ppo_lunarlander": {"collector.moves": 64, "env.max_steps": 60},
    "ppo_halfcheetah": {"algorithm.epochs": 2, "env.max_steps": 60},
    "ppo_hopper": {"algorithm.epochs": 2},
    "ppo_atari": {**SMALL_GAMES, "algorithm.epochs": 1},
    "recurrent_ppo_pendulum_no_velocity": {"algorithm.epochs": 2, "collector.moves": 32},
    "dqn_cartpole": EARLY,
    "r2d1_cartpole_no_velocity": {
        "algorithm.learning_starts": 512,
        "algorithm.capacity": 2_000,
        "algorithm.batch_size": 4,
        "algorithm.length": 8,
    },
    "dqn_lunarlander": {**EARLY, "env.max_steps": 60},
    "dqn_atari": SMALL_GAMES_REPLAY,
    "rainbow_atari": SMALL_GAMES_REPLAY,
    **dict.fromkeys(("sac_pendulum", "td3_pendulum", "ddpg_pendulum"), SMALL_CRITICS),
    **dict.fromkeys(("sac_halfcheetah", "td3_halfcheetah"), SMALL_CRITICS),
}
#: What a run is doing when it is killed.
IN_TURN = (START, ROUNDS, EVALUATION, ROUNDS, CHECKPOINT)
#: A process of its own for each run, which has imported already what takes long.
FORK = multiprocessing.get_context("fork")


def typed(preset: str, folder: Path, options: argparse.Namespace) -> list[str]:
    """Return what is typed to run a preset, or to go on."""
    plans = compose([preset]).agent is None
    workers = "collector.n_workers" if plans else "env.n_workers"
    settings = {**SETTINGS, **(PLANS if plans else {}), **SMALLER.get(preset, {})}
    settings |= {"rounds": options.rounds, "device": options.device}
    if options.n_workers:
        settings[workers] = options.n_workers
    changed = [f"--{key}={value}" for key, value in settings.items()]
    return ["train", preset, "--quiet", "--resume", "--out", str(folder), *changed]


def train(words: list[str], stages: Stages) -> None:
    """Run the command in this process, which is one of its own."""
    stages.follow()
    with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
        status = cli.main(words)
    sys.exit(status)


def run_to_end(preset: str, folder: Path, options: argparse.Namespace) -> Stages:
    """Run to the end; returns how long it was in each stage."""
    stages = Stages()
    process = FORK.Process(target=train, args=(typed(preset, folder, options), stages))
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"{preset}: the run has ended with status {process.exitcode}")
    return stages


def newest_round(folder: Path) -> int:
    """The round of the newest checkpoint; -1 if there is none."""
    newest = Checkpoints(folder).latest()
    return -1 if newest is None else int(newest.stem[-8:])


class Moment(NamedTuple):
    """When a run is killed: so many seconds after it has come to a stage, in or after a round.

    In stages other than the start, the process has written a checkpoint before: it is well
    beyond what a resumed run begins with.
    """

    stage: int
    round: int
    seconds: float

    def has_come(self, found: Stages) -> bool:
        """Whether the run is there."""
        now = found.shared
        there = now.round >= self.round and now.round > now.begun
        return self.stage == START or (now.stage == self.stage and there)


def moments(whole: Stages, options: argparse.Namespace) -> list[Moment]:
    """Return random moments: each stage in turn, in rounds spread over the run."""
    rng = np.random.default_rng(options.seed)
    kinds = [IN_TURN[i % len(IN_TURN)] for i in range(options.kills)]
    last = options.rounds - 2 * EVERY
    rounds = np.arange(options.kills) + rng.uniform(size=options.kills)
    goals = (rounds * last / options.kills).astype(int).tolist()
    seconds = [float(rng.uniform(0, whole.seconds_of(stage))) for stage in kinds]
    return [Moment(*one) for one in zip(kinds, goals, seconds, strict=True)]


def kill_at(moment: Moment, preset: str, folder: Path, options: argparse.Namespace) -> int | None:
    """Run until then; returns the stage in which it was killed, None if it came to its end."""
    stages = Stages()
    process = FORK.Process(target=train, args=(typed(preset, folder, options), stages))
    process.start()
    while not moment.has_come(stages) and process.is_alive():
        time.sleep(0.0005)
    process.join(moment.seconds)
    alive = process.is_alive()
    process.kill()
    process.join()
    return stages.shared.stage if alive else None


def outcome(folder: Path) -> dict[str, str]:
    """Digests of what a run has come to."""
    newest = Checkpoints(folder).latest()
    assert newest is not None
    saved = read_checkpoint(newest)
    found = {"round": str(saved["round"])}
    for name in ("trainer", "collector"):
        found[name] = digest(saved[name])
    found["checkpoint"] = digest({key: saved[key] for key in saved if key != "versions"})
    for name in ("progress.csv", "progress.jsonl", "config.json"):
        found[name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    return found


def digest(content: Any) -> str:
    """Digest of everything in a checkpoint, with its names and types."""
    found = hashlib.sha256()

    def add(one: Any) -> None:
        if isinstance(one, dict):
            for key in sorted(one, key=str):
                found.update(f"{key}:".encode())
                add(one[key])
        elif isinstance(one, list | tuple):
            found.update(f"{len(one)}[".encode())
            for part in one:
                add(part)
        elif hasattr(one, "dtype"):
            array = np.asarray(one)
            found.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
        else:
            found.update(repr(one).encode())

    add(content)
    return found.hexdigest()


class Outcome(NamedTuple):
    """What became of the runs of one preset."""

    preset: str
    #: How often it was killed in each of `STAGES`.
    kills: list[int]
    #: The newest checkpoint after each kill; -1: none yet.
    reached: list[int]
    differences: list[str]

    @property
    def equal(self) -> bool:
        """Whether it was killed at all, and ended like the run that was not."""
        return any(self.kills) and not self.differences


def known(preset: str, folder: Path, options: argparse.Namespace) -> Outcome:
    """Return what became of a preset, from its file if it was tried before in this folder."""
    names = ("kills", "rounds", "n_workers", "seed", "device")
    asked = [*(getattr(options, name) for name in names), list(STAGES)]
    file = folder / "outcome.json"
    if file.exists():
        kept = json.loads(file.read_text())
        if kept["asked"] == asked:
            return Outcome(*kept["outcome"])
    found = tried(preset, folder, options)
    write_json(file, {"asked": asked, "outcome": list(found)})
    return found


def tried(preset: str, folder: Path, options: argparse.Namespace) -> Outcome:
    """Kill the runs of a preset, and compare the end with that of one that was not."""
    for old in ("whole", "killed"):
        shutil.rmtree(folder / old, ignore_errors=True)
    whole = run_to_end(preset, folder / "whole", options)
    spent = [f"{name} {whole.shared.seconds[i]:.2f}" for i, name in enumerate(STAGES)]
    print(f"{preset}, never killed, seconds: {', '.join(spent)}", flush=True)
    # To resume what is done takes as long as it takes to start once kernels are compiled.
    whole.shared.seconds[START] = run_to_end(preset, folder / "whole", options).shared.seconds[
        START
    ]
    kills, reached = [0] * len(STAGES), []
    for moment in moments(whole, options):
        stage = kill_at(moment, preset, folder / "killed", options)
        if stage is not None:
            kills[stage] += 1
        reached.append(newest_round(folder / "killed"))
    told = ", ".join(f"{count} in {name}" for count, name in zip(kills, STAGES, strict=True))
    print(f"{preset}, killed: {told}; newest checkpoints: {reached}", flush=True)
    run_to_end(preset, folder / "killed", options)
    wanted, found = outcome(folder / "whole"), outcome(folder / "killed")
    differences = [name for name in wanted if wanted[name] != found[name]]
    print(f"{preset}: {', '.join(differences) or 'nothing'} differs", flush=True)
    return Outcome(preset, kills, reached, differences)


def page(options: argparse.Namespace, outcomes: list[Outcome]) -> str:
    """The part of the page of benchmarks."""
    workers = options.n_workers
    players = f"{workers} worker processes" if workers else "one process, or as the preset says"
    lines = [
        "## A run that is killed again and again",
        "",
        f"Runs of {options.rounds} rounds, played in {players}, a checkpoint every {EVERY} rounds.",
        "What is large runs at reduced size, and replays are kept in blocks of 1 KB.",
        "Killed with SIGKILL and started again with `--resume`, at random moments: of the start",
        "(imports, making, loading), of rounds (playing, learning, logging), of evaluations and",
        "of writing checkpoints, in rounds spread over the run and not before a resumed run has",
        "written a checkpoint of its own. The table has what each was doing when it was killed,",
        "and the newest checkpoints then (-1: none yet).",
        "",
        "The last checkpoint (weights, optimiser, normalisers, replay, episodes in progress),",
        "`progress.csv`, `progress.jsonl` and `config.json`, against those of a run that was never",
        "killed. `tests/benchmarks/resume.py` does this.",
        "",
        f"| preset | kills | {' | '.join(STAGES)} | newest checkpoints | equal, bit for bit |",
        f"|---|---:|{'---:|' * len(STAGES)}---|---|",
    ]
    for one in outcomes:
        found = "yes" if one.equal else f"NO: {', '.join(one.differences)}"
        reached = ", ".join(map(str, one.reached))
        lines.append(f"| {one.preset} | {_counts(one.kills)} | {reached} | {found} |")
    in_all = [sum(counts) for counts in zip(*(one.kills for one in outcomes), strict=True)]
    equal = sum(one.equal for one in outcomes)
    lines.append(f"| in all | {_counts(in_all)} | | {equal} of {len(outcomes)} |")
    return "\n".join(lines)


def _counts(kills: list[int]) -> str:
    return " | ".join(map(str, [sum(kills), *kills]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--presets", nargs="+", choices=["all", *PRESETS], default=["cartpole"], metavar="NAME"
    )
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--n-workers", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="of networks and what they learn")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--out", type=Path, help="keep the runs here; no preset is tried twice")
    parser.add_argument("--page", type=Path, help="write the result to this page of benchmarks")
    options = parser.parse_args()
    for name, _ in ALGORITHMS.values():
        getattr(learn, name)
    block_files.LEAST_BYTES = block_files.BLOCK_BYTES = 1 << 10
    if "all" in options.presets:
        options.presets = [name for name in PRESETS if compose([name]).agent is not None]
    outcomes = []
    with tempfile.TemporaryDirectory() as scratch:
        for preset in options.presets:
            outcomes.append(known(preset, (options.out or Path(scratch)) / preset, options))
    print(page(options, outcomes))
    if options.page:
        write_section(options.page, "resume", page(options, outcomes))
    return 0 if all(one.equal for one in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())

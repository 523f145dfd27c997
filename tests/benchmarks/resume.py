"""Does a run that is killed again and again end like one that was not?

    python tests/benchmarks/resume.py --kills 20

A training run is killed with SIGKILL at random moments and started again with `--resume`,
as often as `--kills` says; then it may end. Its weights and its log must be those of a run
that was never killed, bit for bit. Exits with 1 if they are not.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from table.sections import write_section

from plangym_ext.run.training.checkpoints import Checkpoints, read_checkpoint

SETTINGS = {
    "evaluation.every": 4,
    "evaluation.episodes": 3,
    "evaluation.stop_at": "none",
    "collector.num_envs": 8,
    "replay.min_rows": 64,
    "checkpoint_every": 2,
}


def command(folder: Path, options: argparse.Namespace) -> list[str]:
    settings = {**SETTINGS, "rounds": options.rounds, "collector.n_workers": options.n_workers}
    typed = [f"--{key}={value}" for key, value in settings.items()]
    cli = [sys.executable, "-P", "-m", "plangym_ext.run.cli", "train", "cartpole", "--quiet"]
    return [*cli, "--resume", "--out", str(folder), *typed]


def finish(folder: Path, options: argparse.Namespace) -> float:
    """Run to the end; returns the seconds that it took."""
    started = time.perf_counter()
    subprocess.run(command(folder, options), check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def newest_round(folder: Path) -> int:
    """The round of the newest checkpoint; -1 if there is none."""
    newest = Checkpoints(folder).latest()
    return -1 if newest is None else int(newest.stem[-8:])


def kill_after(goal: int, seconds: float, folder: Path, options: argparse.Namespace) -> bool:
    """Run until the checkpoint of round `goal` and so long after; True if it had to be killed."""
    process = subprocess.Popen(command(folder, options), stdout=subprocess.DEVNULL)
    try:
        while newest_round(folder) < goal and process.poll() is None:
            time.sleep(0.01)
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return True
    return False


def outcome(folder: Path) -> dict[str, str]:
    """Digests of what a run has come to."""
    newest = Checkpoints(folder).latest()
    assert newest is not None
    saved = read_checkpoint(newest)
    weights = b"".join(t.numpy().tobytes() for t in saved["trainer"]["network"].values())
    found = {"round": str(saved["round"]), "weights": hashlib.sha256(weights).hexdigest()}
    for name in ("progress.csv", "progress.jsonl", "config.json"):
        found[name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    return found


def page(options: argparse.Namespace, kills: int, reached: list[int], equal: bool) -> str:
    """The part of the page of benchmarks."""
    workers = options.n_workers
    found = "equal, bit for bit" if equal else "NOT equal"
    players = f"{workers} worker processes" if workers else "one process"
    return "\n".join(
        [
            "## A run that is killed again and again",
            "",
            f"The preset `cartpole` for {options.rounds} rounds, played in {players}, a checkpoint",
            f"every {SETTINGS['checkpoint_every']} rounds. Killed {kills} times with SIGKILL, at",
            "random moments of training and of starting, and started again with `--resume`; the",
            f"newest checkpoints then: {', '.join(map(str, reached))} (-1: none yet).",
            "",
            "Weights, `progress.csv`, `progress.jsonl` and `config.json` at the end, against those",
            f"of a run that was never killed: **{found}**.",
            "`tests/benchmarks/resume.py` does this.",
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--n-workers", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--out", type=Path, help="keep the runs here")
    parser.add_argument("--page", type=Path, help="write the result to this page of benchmarks")
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.out or Path(scratch)
        seconds = finish(folder / "whole", options)
        # Resuming what is done takes as long as it takes to start.
        start = finish(folder / "whole", options)
        print(f"never killed: {seconds:.1f} s, {start:.1f} s of them to start", flush=True)
        of_a_round = max(0.0, seconds - start) / options.rounds
        wanted, kills, reached = outcome(folder / "whole"), 0, []
        goals = np.sort(rng.integers(options.rounds - 2, size=options.kills))
        for i, goal in enumerate(goals.tolist()):
            # Some hit the start, from loading on; the others any part of a round, of a
            # checkpoint, or of what a resumed run begins with.
            wait = rng.uniform(0.3, 1.0) * start if i % 5 == 0 else rng.uniform(0, 3) * of_a_round
            reach = -1 if i % 5 == 0 else goal
            kills += kill_after(reach, float(wait), folder / "killed", options)
            reached.append(newest_round(folder / "killed"))
        print(f"killed {kills} times; newest checkpoints: {reached}", flush=True)
        finish(folder / "killed", options)
        found = outcome(folder / "killed")
    print(json.dumps({"wanted": wanted, "found": found}, indent=2))
    equal = found == wanted
    print("equal, bit for bit" if equal else "NOT equal")
    if options.page:
        write_section(options.page, "resume", page(options, kills, reached, equal))
    return 0 if equal and kills else 1


if __name__ == "__main__":
    sys.exit(main())

"""Does a run that is killed again and again end like one that was not? `resume.py`.

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


def kill_after(seconds: float, folder: Path, options: argparse.Namespace) -> bool:
    """Run for so long; True if it had to be killed."""
    process = subprocess.Popen(command(folder, options), stdout=subprocess.DEVNULL)
    try:
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--n-workers", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--out", type=Path, help="keep the runs here")
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.out or Path(scratch)
        seconds = finish(folder / "whole", options)
        # Resuming what is done takes as long as it takes to start.
        start = finish(folder / "whole", options)
        print(f"never killed: {seconds:.1f} s, {start:.1f} s of them to start", flush=True)
        latest = start + 1.5 * max(0.0, seconds - start) / max(1, options.kills)
        wanted, kills, reached = outcome(folder / "whole"), 0, []
        while kills < options.kills:
            # Early moments hit the start, late ones any part of a round or a checkpoint.
            if not kill_after(float(rng.uniform(0.3 * start, latest)), folder / "killed", options):
                break
            kills += 1
            newest = Checkpoints(folder / "killed").latest()
            reached.append(None if newest is None else int(newest.stem[-8:]))
        print(f"killed {kills} times; newest checkpoints: {reached}", flush=True)
        finish(folder / "killed", options)
        found = outcome(folder / "killed")
    print(json.dumps({"wanted": wanted, "found": found}, indent=2))
    equal = found == wanted
    print("equal, bit for bit" if equal else "NOT equal")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())

"""Time to draw from large replays, the memory that Atari's frames take, and checkpoints.

    python tests/benchmarks/replay.py

Prioritised draws of 256 from a million rows; draws of 32 stacks of four frames, and of what
follows each, from a million frames of 84 x 84. Medians over rounds.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from plangym_ext.arrays import Array, ArrayDict
from plangym_ext.learn import StepReplay, tensor_file
from plangym_ext.run.files import write_json
from plangym_ext.run.training.checkpoints import Checkpoints

ENVS, STEPS = 8, 125
#: Steps of an episode: those of a life in Breakout are about as many.
EPISODE = 200


def tree_of(shape: tuple[int, ...], dtype: Any) -> ArrayDict:
    """Return the memory of a fragment of 8 envs."""

    def of(kind: Any, feature: tuple[int, ...] = (), padding: int = 0) -> Any:
        return Array((STEPS, ENVS), kind, feature_shape=feature, padding=padding)

    return ArrayDict(
        {
            "obs": of(dtype, shape, 1),
            "action": of(np.int64),
            "reward": of(np.float32),
            "terminated": of(bool),
            "truncated": of(bool),
            "final_obs": of(dtype, shape),
            "first": of(bool, (), 1),
            "valid": of(bool),
        }
    )


def fragments(rows: int, shape: tuple[int, ...], dtype: Any) -> Iterator[ArrayDict]:
    """Yield trees with so many rows in all, stacks of frames where observations have three axes."""
    tree, rng = tree_of(shape, dtype), np.random.default_rng(0)
    tree["valid"][...] = True
    obs = tree["obs"][0 : STEPS + 1].to_ndarray(copy=False)
    frames = rng.integers(0, 255, (STEPS + 8, *shape[1:]), np.uint8)
    for begin in range(0, rows // ENVS, STEPS):
        steps = begin + np.arange(STEPS + 1)
        first = steps % EPISODE == 0
        tree["first"][0 : STEPS + 1] = np.repeat(first[:, None], ENVS, axis=1)
        tree["terminated"][...] = np.repeat(first[1:, None], ENVS, axis=1)
        if len(shape) == 3:
            # A frame says which step it is, so that none is another one's neighbour.
            frames[:, 0, 0] = rng.integers(0, 255, len(frames))
            for t in range(STEPS + 1):
                obs[t] = frames[t : t + shape[0]]
        yield tree


def median_ms(call: Callable[[], Any], rounds: int) -> float:
    """Return the median time of a call."""
    call()
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e3


def prioritized(rows: int, rounds: int) -> dict[str, float]:
    """Draw 256 rows of vectors by priority, and set new priorities."""
    replay = StepReplay(rows, n_steps=3, alpha=0.6, seed=0)
    for tree in fragments(rows, (8,), np.float32):
        replay.add(tree)
    rng = np.random.default_rng(1)
    for _ in range(200):
        batch = replay.sample(256)
        replay.update_priorities(batch.indices, rng.random(256))
    batch, errors = replay.sample(256), rng.random(256)
    return {
        "prioritized draw of 256, ms": median_ms(lambda: replay.sample(256), rounds),
        "256 new priorities, ms": median_ms(
            lambda: replay.update_priorities(batch.indices, errors), rounds
        ),
    }


def frames(rows: int, rounds: int) -> dict[str, float]:
    """Draw 32 stacks of four frames and what follows them."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    replay = StepReplay(rows, frames=True, seed=0)
    for tree in fragments(rows, (4, 84, 84), np.uint8):
        replay.add(tree)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "draw of 32 x 4 frames and the next, ms": median_ms(lambda: replay.sample(32), rounds),
        "GB per million frames": (after - before) * 1024 / len(replay) * 1e6 / 1e9,
    }


def checkpoints(rows: int) -> dict[str, float]:
    """Save a full replay of HalfCheetah's steps, and again after each 10,000 steps."""
    replay, new = StepReplay(rows, alpha=0.6, seed=0), 10_000
    for tree in fragments(2 * rows, (17,), np.float64):
        replay.add(tree)
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        saved = Checkpoints(Path(folder))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        sizes: dict[str, int] = {}
        for number in range(6):
            began = time.perf_counter()
            saved.save(number, {"config": {}, "replay": replay.state_dict()})
            seconds = time.perf_counter() - began
            there = {path.name: path.stat().st_size for path in saved.folder.iterdir()}
            written = sum(size for name, size in there.items() if name not in sizes)
            which = "first checkpoint" if number == 0 else "a later one"
            found |= {f"{which}, s": seconds, f"{which}, MB": written / 1e6}
            sizes = there
            for tree in fragments(new, (17,), np.float64):
                replay.add(tree)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        found["memory for six checkpoints, MB"] = grown * 1024 / 1e6
        found["on the disk then, MB"] = sum(sizes.values()) / 1e6
        began = time.perf_counter()
        tensor_file.save(Path(folder) / "whole.pt", {"replay": replay.state_dict()})
        found["all rows in one file, s"] = time.perf_counter() - began
        found["all rows in one file, MB"] = (Path(folder) / "whole.pt").stat().st_size / 1e6
    return found


def main() -> int:
    """Print a table; write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--frames", type=int, default=1_000_000, help="needs 7.5 GB a million")
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--checkpoints", action="store_true", help="these alone")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    found = checkpoints(options.rows)
    if not options.checkpoints:
        found |= frames(options.frames, options.rounds) | prioritized(options.rows, options.rounds)
    for name, number in found.items():
        print(f"{name:45} {number:8.3f}")
    if options.json:
        write_json(options.json, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())

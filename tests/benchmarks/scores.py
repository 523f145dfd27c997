"""What a planner scores beside a random player, on the same envs and seeds.

    python tests/benchmarks/scores.py --out runs/scores.json

Finished episodes are kept in the JSON file; run it again to go on after an interrupt.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

import plangym_ext
from plangym_ext.planners import load_planner, play
from plangym_ext.run.files import write_json
from plangym_ext.run.progress import ProgressLine


def play_random(env: Any, seed: int, max_steps: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    env.reset(seed=seed)
    total, length = 0.0, 0
    while length < max_steps:
        result = env.step(int(rng.integers(env.action_space.n)))
        total, length = total + result.reward, length + 1
        if result.terminated or result.truncated:
            break
    return {"return": total, "length": length, "model_steps": 0}


def play_planner(
    env: Any, options: argparse.Namespace, seed: int, line: ProgressLine
) -> dict[str, Any]:
    planner: Any = load_planner(options.planner)
    episode = play(
        env,
        planner(num_simulations=options.num_simulations),
        seed=seed,
        max_steps=options.max_steps,
        callback=lambda move: line.update(
            f"{env.name} seed {seed}: step {move.step + 1}, return {move.total:g}"
        ),
    )
    return {
        "return": episode.return_,
        "length": episode.length,
        "model_steps": episode.budget.model_steps,
    }


def print_table(results: dict[str, Any], envs: list[str], seeds: list[int]) -> None:
    print(f"{'env':18} {'player':8} " + " ".join(f"{f'seed {s}':>8}" for s in seeds) + "     mean")
    for env in envs:
        for player in ("random", "planner"):
            found = [results.get(f"{env}/{player}/{seed}") for seed in seeds]
            if None in found:
                continue
            scores = [row["return"] for row in found]
            cells = " ".join(f"{score:8g}" for score in scores)
            print(f"{env:18} {player:8} {cells} {np.mean(scores):8.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--envs", nargs="+", default=["CartPole-v1", "ALE/MsPacman-v5"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--planner", default="mcts")
    parser.add_argument("--num-simulations", type=int, default=64)
    parser.add_argument("--max-steps", type=int, default=500, help="moves per episode")
    parser.add_argument("--n-workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/scores.json"))
    options = parser.parse_args()
    settings = {
        key: getattr(options, key) for key in ("planner", "num_simulations", "max_steps")
    } | {"version": plangym_ext.__version__}
    kept = json.loads(options.out.read_text()) if options.out.exists() else {}
    results = kept.get("results", {}) if kept.get("settings") == settings else {}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    line = ProgressLine()
    started = time.monotonic()
    for name in options.envs:
        with plangym_ext.make(name, n_workers=options.n_workers) as env:
            for seed in options.seeds:
                for player in ("random", "planner"):
                    key = f"{name}/{player}/{seed}"
                    if key in results:
                        continue
                    begun = time.monotonic()
                    if player == "random":
                        row = play_random(env, seed, options.max_steps)
                    else:
                        row = play_planner(env, options, seed, line)
                    results[key] = row | {"seconds": round(time.monotonic() - begun, 2)}
                    write_json(options.out, {"settings": settings, "results": results})
    line.end(f"done in {time.monotonic() - started:.0f} s")
    print(f"{options.planner}, {settings}")
    print_table(results, options.envs, options.seeds)


if __name__ == "__main__":
    main()

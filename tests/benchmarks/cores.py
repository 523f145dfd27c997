"""How busy does one search keep its workers, and what does that cost?

    python tests/benchmarks/cores.py --only cores scores --out runs/cores.json

`cores`: MCTS on MsPacman with one tree and two workers, against as many processes that do
the same restores and steps in a bare loop (`stepping/limit.py`). The states and actions of
the bare loop are those of such a search. Every round measures all contestants in turn; the
median of the rounds' ratios is held against the aim.

`scores`: what waves cost, returns at equal simulations, in order and in waves.

What is not measured again stays in the file; the page is written from all that is there.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from stepping import machine
from stepping.limit import Limit, shared_out
from stepping.report import table
from stepping.rounds import finding, interleaved, ratios, rows_per_second
from table.sections import write_section

import plangym_ext
from plangym_ext.planners import MCTS, play
from plangym_ext.run.bootstrap import mean_interval
from plangym_ext.run.files import write_json

AIM = 0.9
WORKERS = 2
SIMULATIONS = 256
#: Leaves per wave, and waves in flight.
WAVES = [(16, 1), (32, 1), (16, 2), (32, 2), (32, 3), (64, 2)]
SEEDS = 20
#: Env, its arguments, moves at most, simulations a move and steps of a rollout.
GAMES: list[tuple[str, dict[str, Any], int, int, int]] = [
    ("CartPole-v1", {}, 200, 12, 4),
    ("CartPole-v1", {}, 200, 32, 2),
    ("plangym_ext/NarrowPath-v0", {"n": 6}, 60, 32, 4),
    ("plangym_ext/NarrowPath-v0", {"n": 8}, 60, 64, 4),
]
#: The first is sequential search.
ORDERS = [(1, 1), (8, 1), (8, 2), (16, 2)]


def pacman(**settings: Any) -> Any:
    return plangym_ext.make("ALE/MsPacman-v5", **settings)


def state_in_motion(env: Any) -> np.ndarray:
    """A state after the jingle."""
    state, *_ = env.reset(seed=0)
    for _ in range(90):
        state, *_ = env.step(0, state)
    return state


class Watched:
    """An env that notes the rows it is asked to step."""

    def __init__(self, env: Any) -> None:
        self._env, self.rows = env, []
        self.action_space = env.action_space

    def step_batch(self, actions: np.ndarray, states: np.ndarray) -> Any:
        self.rows.append((actions.copy(), states.copy()))
        return self._env.step_batch(actions, states=states)


def busy_cores(rounds: int, seconds: float) -> list[dict[str, Any]]:
    with pacman(n_workers=WORKERS) as env:
        state = state_in_motion(env)
        watched = Watched(env)
        MCTS(SIMULATIONS, rollout_depth=0).plan(watched, state, rng=0)
        actions, states = (np.concatenate(part) for part in zip(*watched.rows, strict=True))
        limit = Limit(
            functools.partial(pacman, backend="serial"), shared_out(states, actions, WORKERS)
        )
        batch = functools.partial(env.step_batch, actions, states=states)
        contestants = {
            "limit": limit.rows_per_second,
            "no tree, its steps in one batch": rows_per_second(batch, len(actions)),
        }
        for wave, flying in WAVES:
            planner = MCTS(SIMULATIONS, rollout_depth=0, wave_size=wave, waves_in_flight=flying)
            plan = functools.partial(planner.plan, env, state, rng=0)
            steps = plan().budget.model_steps
            name = f"one tree, {flying} waves of {wave}"
            contestants[name] = rows_per_second(plan, steps)
        found = interleaved(contestants, rounds, seconds)
        limit.close()
    return [
        finding(
            f"MsPacman, {name}",
            ratios(rates, found["limit"]),
            "of 1",
            at_least=AIM if name.startswith("one tree") else None,
            **{"steps/s": rates, "limit steps/s": found["limit"]},
        )
        for name, rates in found.items()
        if name != "limit"
    ]


def scores() -> Iterator[dict[str, Any]]:
    """Mean returns at equal simulations and their 95 % bootstrap intervals."""
    for name, arguments, max_steps, sims, depth in GAMES:
        in_order: dict[str, Any] = {}
        for wave, flying in ORDERS:
            with plangym_ext.make(name, **arguments) as env:
                planner = MCTS(sims, rollout_depth=depth, wave_size=wave, waves_in_flight=flying)
                episodes = play(env, planner, seed=100, max_steps=max_steps, num_episodes=SEEDS)
            mean, low, high = mean_interval([episode.return_ for episode in episodes])
            row = {
                "env": " ".join([name, *(f"{key}={value}" for key, value in arguments.items())]),
                "simulations": sims,
                "rollout_depth": depth,
                "wave_size": wave,
                "waves_in_flight": flying,
                "mean": mean,
                "low": low,
                "high": high,
                "verdict": _verdict(in_order, mean) if in_order else "",
            }
            in_order = in_order or row
            yield row


def _verdict(in_order: dict[str, Any], mean: float) -> str:
    """Where a mean lies beside the interval of sequential search."""
    if mean < in_order["low"]:
        return "**below**"
    return "above" if mean > in_order["high"] else "inside"


def part(kept: dict[str, Any]) -> str:
    """The part of the page of benchmarks."""
    lines = [
        "## One tree on several processors\n",
        "`tests/benchmarks/cores.py` measures and writes this part. MCTS grows one tree on",
        f"MsPacman with {WORKERS} workers, {SIMULATIONS} simulations without rollouts. Its steps",
        f"per second are held against those of {WORKERS} processes that do the same restores and",
        "steps in a bare loop and never talk. No tree can be faster than `step_batch`, which",
        "makes all of its steps at once.\n",
    ]
    for name in ("cores", "scores"):
        if name in kept:
            about = ", ".join(f"{key} {value}" for key, value in kept[name]["machine"].items())
            lines.append(f"- {name}: {kept[name]['date']}; {about}.")
    if "cores" in kept:
        lines += ["", *table(kept["cores"]["found"])]
    if "scores" in kept:
        lines += ["", *_scores(kept["scores"]["found"])]
    return "\n".join(lines)


def _scores(rows: list[dict[str, Any]]) -> list[str]:
    return [
        "A wave decides on less than it would know in order. Mean return of",
        f"{SEEDS} episodes at equal simulations, with 95 % bootstrap intervals; the last column",
        "says where the mean lies beside the interval of sequential search. Waves are cut short",
        "where all actions are in flight, so that of two actions large ones differ little.\n",
        "| env | simulations | rollouts of | waves in flight | leaves each | mean return | |",
        "|---|---:|---:|---:|---:|---:|---|",
        *map(_score, rows),
    ]


def _score(row: dict[str, Any]) -> str:
    return (
        "| {env} | {simulations} | {rollout_depth} | {waves_in_flight} | {wave_size} "
        "| {mean:.2f} [{low:.2f}, {high:.2f}] | {verdict} |"
    ).format(**row)


def parsed() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", nargs="+", choices=("cores", "scores"), default=("cores", "scores")
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each contestant and round")
    parser.add_argument("--out", type=Path, default=Path("runs/cores.json"))
    parser.add_argument("--page", type=Path, help="docs/benchmarks.md, to write its part")
    return parser.parse_args()


def main() -> None:
    options = parsed()
    kept = json.loads(options.out.read_text()) if options.out.exists() else {}
    here = {key: value for key, value in machine.described().items() if key != "plangym"}
    about = {"date": datetime.date.today().isoformat(), "machine": here}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    if "cores" in options.only:
        found = busy_cores(options.rounds, options.seconds)
        kept["cores"] = {**about, "found": found}
        write_json(options.out, kept)
        print("\n".join(table(found)), flush=True)
    if "scores" in options.only:
        rows = []
        for row in scores():
            rows.append(row)
            print(_score(row), flush=True)
        kept["scores"] = {**about, "found": rows}
        write_json(options.out, kept)
    if options.page:
        write_section(options.page, "cores", part(kept))
        print(f"wrote its part of {options.page}")


if __name__ == "__main__":
    main()

"""How busy does one search keep its workers? `python tests/benchmarks/cores.py [--json FILE]`.

MCTS on MsPacman with one tree and two workers, against as many processes that do the same
restores and steps in a bare loop (`stepping/limit.py`). The states and actions of the bare
loop are those of such a search. Every round measures all contestants in turn; the median
of the rounds' ratios is held against the aim.

The last part asks what waves cost: scores at equal simulations, in order and in waves.
"""

from __future__ import annotations

import argparse
import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
from stepping.limit import Limit, shared_out
from stepping.rounds import finding, interleaved, ratios, rows_per_second

import plangym_ext
from plangym_ext.planners import MCTS, play

AIM = 0.85
WORKERS = 2
SIMULATIONS = 256
#: Leaves per wave, and waves in flight.
WAVES = [(8, 1), (16, 1), (32, 1), (8, 2), (16, 2), (32, 2)]
SEEDS = 20


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
        contestants = {"limit": limit.rows_per_second}
        for wave, flying in WAVES:
            planner = MCTS(SIMULATIONS, rollout_depth=0, wave_size=wave, waves_in_flight=flying)
            plan = functools.partial(planner.plan, env, state, rng=0)
            steps = plan().budget.model_steps
            contestants[f"{flying} waves of {wave}"] = rows_per_second(plan, steps)
        found = interleaved(contestants, rounds, seconds)
        limit.close()
    return [
        finding(
            f"MsPacman, one tree, {name}",
            ratios(rates, found["limit"]),
            "of 1",
            at_least=AIM if name.startswith("2") else None,
            **{"steps/s": rates, "limit steps/s": found["limit"]},
        )
        for name, rates in found.items()
        if name != "limit"
    ]


def scores() -> list[dict[str, Any]]:
    """Mean returns at equal simulations and their 95 % bootstrap intervals."""
    rows = []
    cases = [
        ("CartPole-v1", {"sutton_barto_reward": False}, 200, 12),
        ("plangym_ext/NarrowPath-v0", {}, 60, 32),
    ]
    for name, arguments, max_steps, sims in cases:
        for wave, flying in [(1, 1), (8, 1), (8, 2), (16, 2)]:
            with plangym_ext.make(name, **arguments) as env:
                planner = MCTS(sims, rollout_depth=4, wave_size=wave, waves_in_flight=flying)
                episodes = play(env, planner, seed=100, max_steps=max_steps, num_episodes=SEEDS)
            returns = np.array([episode.return_ for episode in episodes])
            draws = np.random.default_rng(0).choice(returns, (10_000, SEEDS)).mean(axis=1)
            low, high = np.quantile(draws, [0.025, 0.975])
            rows.append(
                {
                    "env": name,
                    "simulations": sims,
                    "wave_size": wave,
                    "waves_in_flight": flying,
                    "mean": float(returns.mean()),
                    "low": float(low),
                    "high": float(high),
                }
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only", nargs="+", choices=("cores", "scores"), default=("cores", "scores")
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each contestant and round")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    found: dict[str, Any] = {}
    if "cores" in options.only:
        found["cores"] = busy_cores(options.rounds, options.seconds)
        for line in found["cores"]:
            rate = line["beside"]["steps/s"]
            print(
                f"{line['name']:40} {line['median']:.2f} of the limit "
                f"({line['min']:.2f} to {line['max']:.2f}), {rate}"
            )
        print(f"(aim: {AIM} with two waves in flight)")
    if "scores" in options.only:
        found["scores"] = scores()
        for row in found["scores"]:
            print(
                "{env:28} {simulations:>3} simulations, {waves_in_flight} waves of "
                "{wave_size:>2}: {mean:8.3f} [{low:.3f}, {high:.3f}]".format(**row)
            )
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()

"""How evenly rows of unequal cost are shared out: one row in four costs ten times as much.

The ideal is the sum of all rows' costs over the number of workers, measured: as many
processes as there are workers run all rows in a bare loop at the same time. A batch of
equal rows with the same sum tells what of the rest is a batch's own cost.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from stepping import spin_env
from stepping.limit import Limit
from stepping.rounds import finding, interleaved, ratios, usual_microseconds

LIGHT, HEAVY = 20_000, 200_000  # ns
ROWS = 64


def measure(n_workers: int, rounds: int, seconds: float) -> list[dict[str, Any]]:
    """Time of a batch over the ideal, for several places of the heavy rows."""
    env = spin_env.parallel(n_workers)
    state, *_ = env.reset(seed=0)
    states = np.repeat(state[None], ROWS, axis=0)
    findings = []
    try:
        for place, actions in _places().items():
            limit = Limit(spin_env.serial, [(states, actions)] * n_workers)

            def ideal(seconds: float, limit: Limit = limit) -> float:
                passes = [taken / (rows / ROWS) for rows, taken in limit.run(seconds)]
                return float(np.mean(passes)) / n_workers * 1e6

            def batch(actions: np.ndarray = actions) -> Any:
                return env.step_batch(actions, states)

            equal = np.full(ROWS, actions.mean(), np.int64)
            found = interleaved(
                {
                    "batch us": usual_microseconds(batch),
                    "ideal us": ideal,
                    "of equal rows us": usual_microseconds(
                        functools.partial(env.step_batch, equal, states)
                    ),
                },
                rounds,
                seconds,
            )
            limit.close()
            findings.append(
                finding(
                    f"B={ROWS}, 10x rows {place}: batch / ideal",
                    ratios(found["batch us"], found["ideal us"]),
                    "x",
                    at_most=1.15,
                    **found,
                )
            )
    finally:
        env.close()
    return findings


def _places() -> dict[str, np.ndarray]:
    heavy = ROWS // 4
    sorted_ = np.repeat([HEAVY, LIGHT], [heavy, ROWS - heavy]).astype(np.int64)
    return {
        "first": sorted_,
        "last": sorted_[::-1].copy(),
        "anywhere": np.random.default_rng(0).permutation(sorted_),
    }

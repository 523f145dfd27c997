"""Scaling on paper: with how many workers does the parent become the limit?

The parent's processor time is fitted as `a + w W + b B` over numbers of workers W and of
rows B. W workers that share B rows of c microseconds each keep it busy all the time when
`a + w W + b B = c B / W`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from stepping.cases import CARTPOLE, CHEETAH, PACMAN_RGB, Case, states_in_motion
from stepping.limit import Limit
from stepping.rounds import finding, interleaved, parent_microseconds

WORKERS = (1, 2, 4)


def measure(rounds: int, seconds: float) -> list[dict[str, Any]]:
    """The number of workers, with the fit beside it."""
    return [
        _measured(case, batches, rounds, seconds)
        for case, batches in (
            (CARTPOLE, (16, 256, 1024)),
            (CHEETAH, (16, 256, 1024)),
            (PACMAN_RGB, (16, 64, 256)),
        )
    ]


def _measured(case: Case, batches: tuple[int, ...], rounds: int, seconds: float) -> dict[str, Any]:
    points: list[tuple[int, int, list[float]]] = []
    row_costs: list[float] = []
    for n_workers in WORKERS:
        env = case.make(backend="process", n_workers=n_workers)
        states, actions = states_in_motion(env, case, max(batches))
        contestants = {
            str(rows): parent_microseconds(
                lambda rows=rows, env=env, actions=actions, states=states: env.step_batch(
                    actions[:rows], states[:rows]
                )
            )
            for rows in batches
        }
        found = interleaved(contestants, rounds, seconds / len(batches))
        points += [(n_workers, int(rows), cpu) for rows, cpu in found.items()]
        if n_workers == 1:
            limit = Limit(lambda: case.make(backend="serial"), [(states, actions)])
            row_costs = [1e6 / limit.rows_per_second(seconds) for _ in range(rounds)]
            limit.close()
        env.close()
    fits = [_fit([(w, b, cpu[k]) for w, b, cpu in points]) for k in range(rounds)]
    rows = case.rows
    limits = [_workers_at_limit(fit, cost, rows) for fit, cost in zip(fits, row_costs, strict=True)]
    return finding(
        f"{case.name} B={rows}, workers at which the parent is the limit",
        limits,
        "",
        **{
            "us per batch": [fit[0] for fit in fits],
            "us per worker": [fit[1] for fit in fits],
            "us per row": [fit[2] for fit in fits],
            "worker us per row": row_costs,
        },
    )


def _fit(points: list[tuple[int, int, float]]) -> tuple[float, float, float]:
    """Least squares of relative errors: large batches would drown the others."""
    table = np.array([(1.0, w, b) for w, b, _ in points])
    cpu = np.array([cost for _, _, cost in points])
    a, w, b = np.linalg.lstsq(table / cpu[:, None], np.ones(len(cpu)), rcond=None)[0]
    return float(a), float(max(w, 0.0)), float(b)


def _workers_at_limit(fit: tuple[float, float, float], cost: float, rows: int) -> float:
    """Positive root of `w W^2 + (a + b B) W - c B`."""
    a, w, b = fit
    own = a + b * rows
    if w == 0.0:
        return cost * rows / own
    return (math.sqrt(own * own + 4 * w * cost * rows) - own) / (2 * w)

"""The share of the physical limit (`limit.py`) that a batch reaches."""

from __future__ import annotations

import functools
from typing import Any

from stepping.cases import Case, states_in_motion
from stepping.limit import Limit, shared_out
from stepping.rounds import finding, interleaved, ratios, rows_per_second

BATCHES = (256, 64, 16)
#: By env and B; other batches are measured without one.
TARGETS = {
    **{(name, 256): 0.9 for name in ("HalfCheetah", "MsPacman RGB", "MsPacman RAM")},
    **{(name, 16): 0.8 for name in ("HalfCheetah", "MsPacman RGB", "MsPacman RAM")},
    ("CartPole", 256): 0.7,
}


def measure(case: Case, n_workers: int, rounds: int, seconds: float) -> list[dict[str, Any]]:
    """Shares at several B, all interleaved with one limit."""
    env = case.make(backend="process", n_workers=n_workers)
    try:
        states, actions = states_in_motion(env, case, max(BATCHES))
        limit = Limit(
            functools.partial(case.make, backend="serial"), shared_out(states, actions, n_workers)
        )
        batches = {
            f"B={rows}": rows_per_second(
                functools.partial(env.step_batch, actions[:rows], states[:rows]), rows
            )
            for rows in BATCHES
        }
        found = interleaved({"limit": limit.rows_per_second, **batches}, rounds, seconds)
        limit.close()
    finally:
        env.close()
    return [
        finding(
            f"{case.name} B={rows}, share of the limit",
            ratios(found[f"B={rows}"], found["limit"]),
            "of 1",
            at_least=TARGETS.get((case.name, rows)),
            **{"ours rows/s": found[f"B={rows}"], "limit rows/s": found["limit"]},
        )
        for rows in BATCHES
    ]

"""The share of the physical limit (`limit.py`) that a batch reaches, ours and a bare sketch's."""

from __future__ import annotations

import functools
from typing import Any

from stepping.cases import Case, states_in_motion
from stepping.limit import Limit, shared_out
from stepping.rounds import finding, interleaved, ratios, rows_per_second
from stepping.sketch import Sketch

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
        build = functools.partial(case.make, backend="serial")
        limit = Limit(build, shared_out(states, actions, n_workers))
        obs = env.step_batch(actions, states).obs
        sketch = Sketch(build, states, actions, obs, n_workers)
        assert (sketch.step_batch(actions, states)[1] == obs).all()
        batches = {
            (who, rows): rows_per_second(
                functools.partial(backend.step_batch, actions[:rows], states[:rows]), rows
            )
            for rows in BATCHES
            for who, backend in (("ours", env), ("sketch", sketch))
        }
        found = interleaved({"limit": limit.rows_per_second, **batches}, rounds, seconds)
        limit.close()
        sketch.close()
    finally:
        env.close()
    return [
        finding(
            f"{case.name} B={rows}, share of the limit",
            ratios(found["ours", rows], found["limit"]),
            "of 1",
            at_least=TARGETS.get((case.name, rows)),
            **{
                "sketch's share": ratios(found["sketch", rows], found["limit"]),
                "ours rows/s": found["ours", rows],
                "limit rows/s": found["limit"],
            },
        )
        for rows in BATCHES
    ]

"""`rollout_batch` against the same steps by `step_batch`, and both against their limits.

A rollout saves restoring, capturing and observing between its steps, and a batch's own
cost. Of the first two the limits tell how much that can be at most: the nearer
`step_batch` comes to its limit, the less is left for a rollout to win.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from stepping.cases import CARTPOLE
from stepping.limit import Limit, play_bare, shared_out
from stepping.rounds import finding, interleaved, ratios, rows_per_second

HORIZON = 50


def measure(n_workers: int, rounds: int, seconds: float) -> list[dict[str, Any]]:
    """Ratio of steps/s on CartPole, none of whose episodes end meanwhile."""
    rows = CARTPOLE.rows
    env = CARTPOLE.make(backend="process", n_workers=n_workers)
    try:
        starts = np.stack([env.reset(seed=seed)[0] for seed in range(rows)])
        actions = _balancing(env, starts)
        build = functools.partial(CARTPOLE.make, backend="serial")
        whole_limit = Limit(build, shared_out(starts, actions, n_workers), play_bare)
        step_limit = Limit(build, shared_out(starts, actions[:, 0], n_workers))

        def one_by_one() -> Any:
            states = starts
            for k in range(HORIZON):
                states = env.step_batch(actions[:, k], states)[0]
            return states

        whole = env.rollout_batch(actions, starts)
        assert (whole.steps == HORIZON).all()
        assert (whole.states == one_by_one()).all()
        steps = rows * HORIZON
        found = interleaved(
            {
                "rollout": rows_per_second(lambda: env.rollout_batch(actions, starts), steps),
                "limit of rollout": whole_limit.rows_per_second,
                "step": rows_per_second(one_by_one, steps),
                "limit of step": step_limit.rows_per_second,
            },
            rounds,
            seconds,
        )
        whole_limit.close()
        step_limit.close()
    finally:
        env.close()
    name = f"CartPole B={rows} H={HORIZON}, rollout_batch"
    return [
        finding(
            f"{name} / step_batch",
            ratios(found["rollout"], found["step"]),
            "x",
            at_least=3.0,
            **{f"{key} steps/s": rates for key, rates in found.items()},
        ),
        finding(
            f"{name}, share of its limit",
            ratios(found["rollout"], found["limit of rollout"]),
            "of 1",
        ),
        finding(
            "  the two limits' own ratio, rollout / step",
            ratios(found["limit of rollout"], found["limit of step"]),
            "x",
        ),
    ]


def _balancing(env: Any, states: np.ndarray) -> np.ndarray:
    """Actions `[B, H]` that keep the poles up."""
    obs = env.step_batch(np.zeros(len(states), np.int64), states).obs
    actions = np.zeros((len(states), HORIZON), np.int64)
    found = env.step_batch(actions[:, 0], states)
    for k in range(1, HORIZON):
        obs = found.obs
        actions[:, k] = obs[:, 2] + 0.5 * obs[:, 3] > 0
        found = env.step_batch(actions[:, k], found.states)
    return actions

"""Ours against plangym: `step_batch` with states, two workers each."""

from __future__ import annotations

from typing import Any

from stepping.cases import Case, states_in_motion
from stepping.peer import Peer, check_same_work
from stepping.rounds import finding, interleaved, ratios, rows_per_second

TARGETS = {"CartPole": 3.0, "HalfCheetah": 2.0, "MsPacman RGB": 1.5, "MsPacman RAM": 1.5}


def measure(case: Case, n_workers: int, rounds: int, seconds: float) -> list[dict[str, Any]]:
    """Ratio of rows/s."""
    # The peer forks, and should not inherit what belongs to our workers.
    peer = Peer(case, n_workers)
    env = case.make(backend="process", n_workers=n_workers)
    try:
        states, actions = states_in_motion(env, case, case.rows)
        their_states, their_actions = peer.states_of(env, states), list(actions)
        check_same_work(
            case, env.step_batch(actions, states), peer.step_batch(their_actions, their_states)
        )
        found = interleaved(
            {
                "ours": rows_per_second(lambda: env.step_batch(actions, states), case.rows),
                "plangym": rows_per_second(
                    lambda: peer.step_batch(their_actions, their_states), case.rows
                ),
            },
            rounds,
            seconds,
        )
    finally:
        env.close()
        peer.close()
    return [
        finding(
            f"{case.name} B={case.rows}, ours / plangym",
            ratios(found["ours"], found["plangym"]),
            "x",
            at_least=TARGETS[case.name],
            **{f"{key} rows/s": rates for key, rates in found.items()},
        )
    ]

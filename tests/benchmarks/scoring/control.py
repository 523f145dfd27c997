"""Continuous control: HalfCheetah at equal model steps, and Pendulum.

Each move may cost 128 sequences of 30 steps, in as many rounds as the planner likes.
"""

from __future__ import annotations

from typing import Any

import plangym_ext
from plangym_ext.planners import load_planner, play
from scoring.cells import Cell, Say, row_of

MOVES, SEQUENCES, HORIZON = 200, 128, 30
#: Options that are not the planner's own defaults, by env and planner.
PLANNERS: dict[str, dict[str, dict[str, Any]]] = {
    "HalfCheetah-v5": {
        "icem": {},
        "mppi": {},
        "dial": {},
        "cem": {},
        "predictive-sampling": {},
        "random-shooting": {},
    },
    "Pendulum-v1": {"icem": {}},
}
SEEDS = {"HalfCheetah-v5": 5, "Pendulum-v1": 20}


def cells(seeds: int | None = None) -> list[Cell]:
    """Every planner in its envs."""
    return [
        Cell(
            "control",
            env_id,
            name,
            options,
            tuple((seed,) for seed in range(SEEDS[env_id] if seeds is None else seeds)),
        )
        for env_id, planners in PLANNERS.items()
        for name, options in planners.items()
    ]


def run(cell: Cell, seeds: tuple[int, ...], _path: str, say: Say) -> dict[str, Any]:
    """Play one episode."""
    planner: Any = load_planner(cell.planner)
    with plangym_ext.make(cell.task, threads=1) as env:
        episode = play(
            env,
            planner(SEQUENCES, horizon=HORIZON, **cell.options),
            seed=seeds[0],
            max_steps=MOVES,
            callback=lambda move: say(f"move {move.step + 1} of {MOVES}, return {move.total:.0f}"),
        )
    return {str(episode.seed): row_of(episode)}

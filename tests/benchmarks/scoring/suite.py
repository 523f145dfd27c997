"""Planning in the Control Suite's tasks with the true model, beside what is learned there."""

from __future__ import annotations

import time
from typing import Any

import plangym_ext
from plangym_ext.planners import load_planner, play
from plangym_ext.planners.tuned import tuned_options
from scoring.cells import Cell, Say, row_of

#: Mean return of TD-MPC2 and SAC at a million steps, 3 seeds: the CSVs that TD-MPC2's authors
#: published with their code. SAC's are not kept for two tasks.
LEARNED: dict[str, tuple[int, int | None]] = {
    "cheetah-run": (844, 730),
    "walker-run": (842, 635),
    "acrobot-swingup": (518, 10),
    "hopper-hop": (338, 70),
    "humanoid-run": (185, None),
}
PLANNERS = ("icem", "mppi", "predictive-sampling", "dial")
#: Env steps for which an action is held, as for TD-MPC2; and those of a whole episode.
ACTION_REPEAT, EPISODE_STEPS = 2, 1000


def env_id(task: str) -> str:
    """Name of the env."""
    return f"plangym_ext/{task}-v0"


def cells(tasks: list[str], planners: list[str], seeds: int, steps: int) -> list[Cell]:
    """One cell for each planner in each task; of episodes of so many env steps."""
    return [
        Cell(
            f"suite, {steps} steps",
            task,
            planner,
            tuned_options(env_id(task), planner),
            tuple((seed,) for seed in range(seeds)),
        )
        for task in tasks
        for planner in planners
    ]


def run(cell: Cell, seed: int, steps: int, say: Say) -> dict[str, Any]:
    """Play one episode, or its first steps."""
    planner: Any = load_planner(cell.planner)
    moves = steps // ACTION_REPEAT
    with plangym_ext.make(env_id(cell.task), frameskip=ACTION_REPEAT) as env:
        begun = time.perf_counter()
        episode = play(
            env,
            planner(**cell.options),
            seed=seed,
            max_steps=moves,
            callback=lambda move: say(f"move {move.step + 1} of {moves}, return {move.total:.1f}"),
        )
    return {str(seed): row_of(episode, seconds=time.perf_counter() - begun)}

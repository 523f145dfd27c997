"""Planning in the Control Suite's tasks with the true model, beside what is learned there."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import plangym_ext
from plangym_ext.planners import load_planner, play
from plangym_ext.planners.options import tuned_options
from scoring.cells import Cell, Say

#: Called with rows by seed, and the env steps that they are of.
Keep = Callable[[dict[str, Any], int], None]

#: Mean return of TD-MPC2 and SAC at a million steps, 3 seeds: the CSVs that TD-MPC2's authors
#: published with their code; None: not known here.
LEARNED: dict[str, tuple[int, int | None]] = {
    "cheetah-run": (844, 730),
    "walker-run": (842, 635),
    "acrobot-swingup": (518, 10),
    "hopper-hop": (338, 70),
    "humanoid-run": (185, None),
    "dog-run": (170, None),
}
PLANNERS = ("icem", "mppi", "predictive-sampling", "dial")
#: Env steps for which an action is held, as for TD-MPC2; and those of a whole episode.
ACTION_REPEAT, EPISODE_STEPS = 2, 1000
#: Moves after which what was played so far is kept.
_KEPT_EVERY = 50


def env_id(task: str) -> str:
    """Name of the env."""
    return f"plangym_ext/{task}-v0"


def cell_of(task: str, planner: str, seeds: int, steps: int) -> Cell:
    """A planner in a task, in the first so many env steps of episodes."""
    options = tuned_options(env_id(task), planner)
    chunks = tuple((seed,) for seed in range(seeds))
    return Cell(f"suite, {steps} steps", task, planner, options, chunks)


def run(cell: Cell, seed: int, steps: int, say: Say, keep: Keep) -> None:
    """Play an episode, or its first steps.

    Args:
        cell: planner and task.
        seed: of the episode.
        steps: env steps of it.
        say: told how far it is.
        keep: given what was played of it, and how many env steps that are: now and then, and
            in the end.
    """
    planner: Any = load_planner(cell.planner)
    moves, model_steps, begun = steps // ACTION_REPEAT, 0, time.perf_counter()

    def shown(move: Any) -> None:
        nonlocal model_steps
        model_steps += move.plan.budget.model_steps
        length = move.step + 1
        say(f"move {length} of {moves}, return {move.total:.1f}")
        if length % _KEPT_EVERY == 0 or length == moves:
            _check_time(looker, move.state, length * ACTION_REPEAT)
            row = {"score": move.total, "length": length, "model_steps": model_steps}
            row["seconds"] = time.perf_counter() - begun
            keep({str(seed): row}, length * ACTION_REPEAT)

    with (
        plangym_ext.make(env_id(cell.task), frameskip=ACTION_REPEAT) as env,
        plangym_ext.make(env_id(cell.task), backend="serial", check=False) as looker,
    ):
        begun = time.perf_counter()
        play(env, planner(**cell.options), seed=seed, max_steps=moves, callback=shown)


def figures(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Mean return, episodes, model steps and seconds a decision, as a table has them."""
    decisions = sum(row["length"] for row in rows)
    yield f"{sum(row['score'] for row in rows) / len(rows):,.1f}"
    yield str(len(rows))
    yield f"{sum(row['model_steps'] for row in rows) / decisions:,.0f}"
    yield f"{sum(row['seconds'] for row in rows) / decisions:.2f}"


def _check_time(looker: Any, state: Any, steps: int) -> None:
    """Refuse an episode whose simulation blew up and began anew, by MuJoCo's own doing.

    dm_control ends such an episode by an error; here it would be on its feet again.

    Args:
        looker: an env of the serial kind, to look into the state.
        state: after so many env steps.
        steps: how many.
    """
    looker.set_state(state)
    simulator = looker.gym_env.unwrapped
    expected = steps * simulator.frame_skip * simulator.model.opt.timestep
    if not math.isclose(simulator.data.time, expected, rel_tol=1e-6):
        raise RuntimeError(
            f"{looker.name}: expected {expected:g} simulated seconds after {steps} steps; got "
            f"{simulator.data.time:g}. The simulation became unstable; the episode is not kept."
        )

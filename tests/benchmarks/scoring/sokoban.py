"""Sokoban: breadth against depth of a tree at equal budget.

The first 200 levels of Boxoban's unfiltered test set, at most 120 moves each (gym-sokoban's
limit). Np simulations of H expansions a move, Np x H = 50: 200 model steps. The value of a
state is fixed: minus a tenth of the least total distance between boxes and targets, every
box having a target of its own. Returns are undiscounted, or standing still would pay.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

import plangym_ext
from plangym_ext.envs.sokoban import read_levels
from plangym_ext.planners import STS, GraphSearch, play
from scoring.cells import Cell, Say, row_of
from scoring.starts import StartedBy

EXPANSIONS, MOVES, LEVELS, CHUNK = 50, 120, 200, 100
# Planes of the observation; see docs/sokoban.md.
_TARGET, _BOX_ON_TARGET, _BOX, _PLAYER_ON_TARGET = 2, 3, 4, 6


def cells(seeds: int | None = None) -> list[Cell]:
    """Both kinds of tree with every H."""
    count = LEVELS if seeds is None else seeds
    chunks = tuple(
        tuple(range(first, min(first + CHUNK, count))) for first in range(0, count, CHUNK)
    )
    return [
        Cell("sokoban", "levels", f"{kind}, H={depth}", {"kind": kind, "H": depth}, chunks)
        for kind in ("tree", "graph")
        for depth in (1, 2, 5, 10)
    ]


def matched_distance(obs: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:
    """Return `[L]`: least sum of distances between boxes and targets of boards `[L, H, W, 7]`."""
    boxes = _places(obs[..., _BOX] | obs[..., _BOX_ON_TARGET])
    targets = _places(obs[..., _TARGET] | obs[..., _BOX_ON_TARGET] | obs[..., _PLAYER_ON_TARGET])
    apart = np.abs(boxes[:, :, None] - targets[:, None]).sum(axis=-1)
    orders = np.array(list(itertools.permutations(range(boxes.shape[1]))))
    sums = apart[:, np.arange(boxes.shape[1]), orders].sum(axis=-1)
    return sums.min(axis=1).astype(np.float64)


def _places(marks: npt.NDArray[np.uint8]) -> npt.NDArray[np.intp]:
    """Return `[L, n, 2]` rows and columns of the n marks of every board."""
    _, row, column = np.nonzero(marks)
    return np.stack([row, column], axis=-1).reshape(len(marks), -1, 2)


def fixed_value(obs: Any) -> tuple[None, npt.NDArray[np.float64]]:
    """The evaluator: no prior, and the value of each board."""
    return None, -0.1 * matched_distance(np.asarray(obs))


def planner_of(cell: Cell) -> Any:
    """The planner of a cell."""
    depth = cell.options["H"]
    if cell.options["kind"] == "tree":
        return STS(
            EXPANSIONS // depth,
            num_expansions=depth,
            evaluator=fixed_value,
            discount=1.0,
            wave_size=1,
            keep_tree=True,
        )
    return GraphSearch(
        EXPANSIONS // depth,
        num_expansions=depth,
        evaluator=fixed_value,
        discount=1.0,
        dead_end_value=-3.0,
        # States count the steps to the limit; boards are all that matters.
        state_key="obs",
    )


def run(cell: Cell, seeds: tuple[int, ...], path: str, say: Say) -> dict[str, Any]:
    """Play some levels side by side; a seed is the number of a level.

    Args:
        cell: which planner.
        seeds: consecutive levels.
        path: of the file of levels.
        say: is told how far it is.
    """
    levels = read_levels(path)

    def begin(env: Any, seed: int) -> tuple[Any, Any, dict[str, Any]]:
        return env.reset(seed=seed, options={"level": seed})

    with plangym_ext.make("plangym_ext/Sokoban-v0", levels=levels) as env:
        episodes = play(
            StartedBy(env, begin),
            planner_of(cell),
            seed=seeds[0],
            max_steps=MOVES,
            num_episodes=len(seeds),
            callback=lambda move: say(f"move {move.step + 1} of {MOVES}"),
        )
    return {
        str(episode.seed): row_of(episode, solved=bool(episode.terminated)) for episode in episodes
    }

"""Level choice at reset in the Sokoban kernel: the next stored level or a generated one."""

from __future__ import annotations

from typing import Any

import numpy as np

from plangym_ext.envs.kernels.sokoban import cursor, generator, place_player, set_cursor
from plangym_ext.envs.sokoban.cells import PLAYER, PLAYER_ON_TARGET
from plangym_ext.envs.sokoban.draws import new_work
from plangym_ext.envs.sokoban.generator import _generate
from plangym_ext.native.compiled import compiled
from plangym_ext.native.kernel import pcg64

# The bound of the env's draw of a level seed; it is one more than fits int64.
_SEEDS = np.uint64(2**63)


@compiled
def _place(state: Any, width: int, cells: Any) -> None:
    """Write a board, and where the player stands on it."""
    for k in range(cells.size):
        state[k] = cells[k]
        if cells[k] == PLAYER or cells[k] == PLAYER_ON_TARGET:
            place_player(state, width, k)


def take(state: Any, params: Any) -> None:
    """Begin the next of the levels that the env was given."""
    count = params.levels.shape[0]
    # Only a random order draws: the sequential one leaves the generator as it is, as in the env.
    if params.is_random:
        index = pcg64.integers(generator(state), count)
    else:
        index = cursor(state)
        set_cursor(state, (index + 1) % count)
    _place(state, params.width, params.levels[index])


def generate(state: Any, params: Any) -> None:
    """Begin a new level, a function of one draw.

    Raises:
        ValueError: none was found; the env itself has a better message.
    """
    size, boxes = params.height * params.width, params.num_boxes
    seed = pcg64.integers(generator(state), _SEEDS)
    work = new_work(seed, size, boxes)
    # Two pushes for each box, as `generate_level` demands by default.
    if _generate(work, params.height, params.width, 2 * boxes) < 0:
        raise ValueError("no level was found")
    _place(state, params.width, work.cells)

"""Sokoban search heuristic: a lower bound on the pushes to the solution."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plangym_ext.core.compiling.jit import allocating_kernel, kernel
from plangym_ext.envs.sokoban.cells import (
    BOX,
    BOX_ON_TARGET,
    NUM_CODES,
    PLAYER_ON_TARGET,
    TARGET,
    WALL,
)

#: Pushes said of a box that can reach no target: more than any level takes.
UNSOLVABLE = 1000
# With more boxes there are too many sets of targets to look at.
_MOST_MATCHED = 10
_NO_WAY = -1


def pushes_to_go(obs: Any) -> NDArray[np.float64]:
    """Return how many pushes at least solve each of L boards, `[L]` float64, fresh.

    Every box is pushed to a target of its own, past walls but as if no other box were there,
    and the targets are shared out so that the sum is least; with more than 10 boxes each takes
    the target nearest to it. `UNSOLVABLE` or more: some box can no longer reach a target. It
    never says too much, and a step makes at most one push: with it A* finds shortest ways.

    Args:
        obs: `[L, H, W, 7]` of 0 and 1, planes as `SokobanEnv` shows them.

    Raises:
        ValueError: they are no planes.

    Source: the lower bound of Junghanns & Schaeffer 2001, "Sokoban: enhancing general
    single-agent search methods using domain knowledge", without its linear conflicts.
    """
    planes = np.asarray(obs)
    if planes.ndim != 4 or planes.shape[3] != NUM_CODES:
        raise ValueError(
            f"pushes_to_go: observations must be planes [L, H, W, {NUM_CODES}]; got "
            f"{list(planes.shape)}. Make the env with observation='planes'."
        )
    count, height, width, _ = planes.shape
    cells = planes.reshape(count, height * width, NUM_CODES)
    found = np.zeros(count)
    _rate(np.ascontiguousarray(cells, np.uint8), width, found)
    return found


@allocating_kernel
def _rate(planes: Any, width: int, found: Any) -> None:
    """Write the pushes of every board."""
    size = planes.shape[1]
    cells, ground = np.zeros(size, np.uint8), np.full(size, 255, np.uint8)
    distances, queue = np.zeros((size, size), np.int64), np.zeros(size, np.int64)
    boxes, targets = np.zeros(size, np.int64), np.zeros(size, np.int64)
    num_targets = 0
    for i in range(len(planes)):
        same = True
        for k in range(size):
            code = WALL
            while code < NUM_CODES - 1 and planes[i, k, code] == 0:
                code += 1
            cells[k] = code
            kind = 0
            if code == WALL:
                kind = 1
            elif code in (TARGET, BOX_ON_TARGET, PLAYER_ON_TARGET):
                kind = 2
            same &= ground[k] == kind
            ground[k] = kind
        # Boards of one search come one after the other, and have walls and targets in common.
        if not same:
            num_targets = 0
            for k in range(size):
                if ground[k] == 2:
                    _measure(ground, width, k, distances[num_targets], queue)
                    targets[num_targets] = k
                    num_targets += 1
        num_boxes = 0
        for k in range(size):
            if cells[k] in (BOX, BOX_ON_TARGET):
                boxes[num_boxes] = k
                num_boxes += 1
        if num_boxes <= _MOST_MATCHED:
            found[i] = _matched(distances, boxes[:num_boxes], num_targets)
        else:
            found[i] = _nearest(distances, boxes[:num_boxes], num_targets)


@kernel
def _measure(ground: Any, width: int, target: int, distance: Any, queue: Any) -> None:
    """Write how many pushes take a box from each cell to a target, `_NO_WAY` where none do."""
    distance[:] = _NO_WAY
    distance[target], queue[0] = 0, target
    head, tail = 0, 1
    while head < tail:
        cell = queue[head]
        head += 1
        for step in (-width, width, -1, 1):
            before = cell - step  # of the box; the player pushes from beyond
            # The ring of walls is found before a cell outside of the board is looked at.
            if ground[before] == 1 or ground[before - step] == 1 or distance[before] != _NO_WAY:
                continue
            distance[before] = distance[cell] + 1
            queue[tail] = before
            tail += 1


@kernel
def _pushes(distances: Any, target: int, box: int) -> int:
    pushes = distances[target, box]
    return UNSOLVABLE if pushes == _NO_WAY else pushes


@allocating_kernel
def _matched(distances: Any, boxes: Any, num_targets: int) -> Any:
    """Return the least sum over all ways to give each box a target of its own."""
    # least[s]: of the first boxes, as many as s has bits, on the targets that are bits of s.
    # One more than the worst answer, so that a set not reached yet never looks better.
    least = np.full(1 << num_targets, len(boxes) * UNSOLVABLE + 1, np.int64)
    least[0] = 0
    best: Any = len(boxes) * UNSOLVABLE
    # Sets in ascending order: a set is complete before any that contains it.
    for taken in range(1 << num_targets):
        box, rest = 0, taken
        while rest:
            box += rest & 1
            rest >>= 1
        if box == len(boxes):
            best = min(best, least[taken])
        if box >= len(boxes):
            continue
        for target in range(num_targets):
            if not taken >> target & 1:
                to = taken | 1 << target
                least[to] = min(least[to], least[taken] + _pushes(distances, target, boxes[box]))
    return best


@kernel
def _nearest(distances: Any, boxes: Any, num_targets: int) -> int:
    """Return the sum of the pushes to each box's nearest target."""
    total = 0
    for box in boxes:
        least = UNSOLVABLE
        for target in range(num_targets):
            least = min(least, _pushes(distances, target, box))
        total += least
    return total

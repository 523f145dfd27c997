"""Sokoban level generator: carved rooms and reverse play from the solution.

A level is a pure function of a 63-bit seed and its size, so drawing one advances the
env's generator by exactly one number, whatever the level took to find.

The kernels also run as plain Python (`NUMBA_DISABLE_JIT=1`) with the same results.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from plangym_ext.core.compiling.jit import kernel, kernel_part
from plangym_ext.envs.sokoban.cells import (
    BOX,
    BOX_ON_TARGET,
    FLOOR,
    MAX_SIDE,
    PLAYER,
    PLAYER_ON_TARGET,
    TARGET,
    WALL,
)
from plangym_ext.envs.sokoban.draws import Work, draw, new_work
from plangym_ext.errors import InvalidOption

# Caves and walks tried before a size is given up; even crowded sizes need few.
_MAX_ATTEMPTS = 500
# Failed attempts until the cave is dug for twice as long.
_WIDEN = 50
# Backward pulls tried per box, each of one to _MAX_PULL cells.
_PULLS_PER_BOX, _MAX_PULL = 16, 4
# gym-sokoban's cave: chance to turn at a step, and steps per unit of H + W.
_TURN, _STEPS_PER_SIDE = 0.35, 1.7

# Cells that the player has not entered (yet), and those that it cannot enter.
_UNREACHED, _CLOSED = -1, -2


@kernel_part
def _stride(width: int, action: int) -> int:
    """Return the change of the cell number by an action (up, down, left, right).

    Arithmetic: to look it up in a tuple is a jump that processors cannot foresee.
    """
    sign = 2 * (action & 1) - 1
    return sign * width if action < 2 else sign


@kernel_part
def _carve(work: Work, height: int, width: int, steps: int) -> None:
    """Dig a connected cave with a small brush that walks `steps` at random, in place."""
    cells = work.cells
    cells[:] = WALL
    row, col = 1 + draw(work, height - 2), 1 + draw(work, width - 2)
    heading = draw(work, 4)
    for _ in range(steps):
        if draw(work, 1000) < 1000 * _TURN:
            heading = draw(work, 4)
        sign = 2 * (heading & 1) - 1
        row = min(max(row + (sign if heading < 2 else 0), 1), height - 2)
        col = min(max(col + (0 if heading < 2 else sign), 1), width - 2)
        cells[row * width + col] = FLOOR
        # The brush also takes up to two neighbours: straight, bent, or one twice.
        for _ in range(2):
            near = row * width + col + _stride(width, draw(work, 4))
            cells[near] = FLOOR
    # It digs into the outer wall, too, which is put back at once.
    for k in range(width):
        cells[k] = cells[cells.size - 1 - k] = WALL
    for k in range(height):
        cells[k * width] = cells[k * width + width - 1] = WALL


@kernel_part
def _take_floor(work: Work) -> int:
    """Return a random cell of bare floor, -1 if there is none."""
    count = 0
    for cell in range(work.cells.size):
        # Without a jump, which would be a surprise at every other cell.
        work.queue[count] = cell
        count += work.cells[cell] == FLOOR
    if count == 0:
        return -1
    return work.queue[draw(work, count)]


@kernel_part
def _measure(work: Work, width: int) -> None:
    """Fill `distance` with steps to the nearest target, boxes not in the way.

    A push moves a box by one cell, so the sum over boxes bounds the pushes that any
    solution needs from below.
    """
    work.distance[:] = -1
    head = tail = 0
    for cell in range(work.cells.size):
        if work.cells[cell] == BOX_ON_TARGET:
            work.distance[cell] = 0
            work.queue[tail] = cell
            tail += 1
    while head < tail:
        cell = work.queue[head]
        head += 1
        for step in (-width, width, -1, 1):
            near = cell + step
            before = work.distance[near]
            is_new = (work.cells[near] != WALL) & (before < 0)
            work.distance[near] = work.distance[cell] + 1 if is_new else before
            work.queue[tail] = near
            tail += is_new


@kernel_part
def _flood(work: Work, width: int, player: int) -> int:
    """Mark in `arrived` what the player can walk to; return the number of cells.

    The cells reached are the first entries of `queue`, the player's own first.
    """
    for cell in range(work.cells.size):
        code = work.cells[cell]
        is_free = (code == FLOOR) | (code == TARGET)
        work.arrived[cell] = _UNREACHED if is_free else _CLOSED
    # No action: walks that are read backwards end here.
    work.arrived[player] = 4
    work.queue[0] = player
    head, tail = 0, 1
    while head < tail:
        cell = work.queue[head]
        head += 1
        for action in range(4):
            near = cell + _stride(width, action)
            # Without a jump, as in `_take_floor`: what is not new is written over.
            before = work.arrived[near]
            is_new = before == _UNREACHED
            work.arrived[near] = action if is_new else before
            work.queue[tail] = near
            tail += is_new
    return tail


@kernel_part
def _walk(work: Work, width: int, player: int, goal: int, length: int) -> int:
    """Append the walk from player to goal to `path[length:]`; return the new length.

    `arrived` is of `_flood` from `player`, and `goal` was reached.
    """
    # Gone through twice: it is found from its end, and is written from its beginning.
    steps = 0
    cell = goal
    while cell != player:
        cell -= _stride(width, int(work.arrived[cell]))
        steps += 1
    cell = goal
    for back in range(steps):
        action = int(work.arrived[cell])
        work.path[length + steps - 1 - back] = action
        cell -= _stride(width, action)
    return length + steps


@kernel_part
def _choose_pull(work: Work, width: int) -> int:
    """Return a random pull that the flooded region allows, as box * 4 + action, or -1.

    Of two draws the one that takes its box further from the targets wins: the walk
    leaves the solved position but is not greedy.
    """
    # `queue` holds the region no longer needed once `arrived` is filled.
    count = 0
    for box in range(work.boxes.size):
        for action in range(4):
            step = _stride(width, action)
            stand = work.boxes[box] + step
            is_reached = work.arrived[stand] >= 0
            # Beyond the outer wall there is nothing to be looked at.
            beyond = work.cells[stand + step * is_reached]
            work.queue[count] = box * 4 + action
            count += is_reached & ((beyond == FLOOR) | (beyond == TARGET))
    if count == 0:
        return -1
    first, second = work.queue[draw(work, count)], work.queue[draw(work, count)]
    gain = _gain(work, width, second) - _gain(work, width, first)
    return second if gain > 0 else first


@kernel_part
def _gain(work: Work, width: int, choice: int) -> int:
    """Return how much further from the targets a pull takes its box.

    Leaving a target counts most, entering one least: with many boxes a walk that did
    not mind would hardly ever meet a position with all of them off.
    """
    box = work.boxes[choice // 4]
    before = work.distance[box]
    after = work.distance[box + _stride(width, choice % 4)]
    return after - before + 2 * (before == 0) - 2 * (after == 0)


@kernel_part
def _solved(work: Work) -> bool:
    """Return whether every box is on a target."""
    for box in work.boxes:  # noqa: SIM110 - numba compiles no generator expressions
        if work.distance[box] != 0:
            return False
    return True


@kernel_part
def _pull(work: Work, width: int, choice: int, player: int, length: int) -> tuple[int, int]:
    """Pull a box one to `_MAX_PULL` cells; return the player's cell and path length."""
    box, action = choice // 4, choice % 4
    step = _stride(width, action)
    cells = work.cells
    for _ in range(1 + draw(work, _MAX_PULL)):
        ahead = player + step
        if not FLOOR <= cells[ahead] <= TARGET:
            break
        old = work.boxes[box]
        cells[old] = TARGET if cells[old] == BOX_ON_TARGET else FLOOR
        cells[player] = BOX_ON_TARGET if cells[player] == TARGET else BOX
        work.boxes[box] = player
        player = ahead
        work.path[length] = action
        length += 1
        # Forward play would end here, so backward play must not go on past it.
        if _solved(work):
            break
    return player, length


@kernel_part
def _play_backwards(work: Work, width: int, player: int) -> tuple[int, int, int]:
    """Leave the solved position by random pulls and keep the furthest position met.

    Returns:
        (distance, player, length): the boxes' summed distance in `best_cells`, 0 if no
        position had every box off the targets; the player there; its part of `path`.
    """
    best, best_player, best_length = 0, player, 0
    length = 0
    for pull in range(_PULLS_PER_BOX * work.boxes.size):
        _flood(work, width, player)
        choice = _choose_pull(work, width)
        # Room for this walk and pull, and for the last walk of `_generate`.
        if choice < 0 or length + 2 * work.cells.size + _MAX_PULL > work.path.size:
            break
        stand = work.boxes[choice // 4] + _stride(width, choice % 4)
        # Once solved, forward play is over: the walk to the first pull is none of it.
        length = _walk(work, width, player, stand, length) if pull > 0 else 0
        player, length = _pull(work, width, choice, stand, length)
        if _solved(work):
            break
        total = 0
        for box in work.boxes:
            if work.distance[box] == 0:
                total = 0
                break
            total += work.distance[box]
        if total > best:
            best, best_player, best_length = total, player, length
            for cell in range(work.cells.size):
                work.best_cells[cell] = work.cells[cell]
    return best, best_player, best_length


@kernel
def _generate(work: Work, height: int, width: int, min_pushes: int) -> int:
    """Search for a level; it ends in `cells`, with the player, its backward play in `path`.

    Returns:
        Length of the backward play, or -1 if no attempt was good enough.
    """
    for attempt in range(_MAX_ATTEMPTS):
        # Many boxes need a wider cave than usual; failures are how that shows.
        steps = int(_STEPS_PER_SIDE * (height + width) * (1 + attempt / _WIDEN))
        _carve(work, height, width, steps)
        player = 0
        for box in range(work.boxes.size):
            player = _take_floor(work)
            if player < 0:
                break
            work.boxes[box] = player
            work.cells[player] = BOX_ON_TARGET
        player = _take_floor(work)
        if player < 0:
            continue
        _measure(work, width)
        pushes, player, length = _play_backwards(work, width, player)
        if pushes < min_pushes:
            continue
        for cell in range(work.cells.size):
            work.cells[cell] = work.best_cells[cell]
        # The last pull would give away the first push: the player walks on.
        reached = _flood(work, width, player)
        start = work.queue[draw(work, reached)]
        length = _walk(work, width, player, start, length)
        work.cells[start] = PLAYER_ON_TARGET if work.cells[start] == TARGET else PLAYER
        return length
    return -1


def generate_level(
    seed: int, dim: tuple[int, int] = (10, 10), num_boxes: int = 4, *, min_pushes: int | None = None
) -> tuple[NDArray[np.uint8], NDArray[np.int8]]:
    """Make a level that can be solved, no box on a target at its start.

    Args:
        seed: in [0, 2**63); the same arguments give the same level everywhere.
        dim: rows and columns, 5 to 255 each, the ring of walls included.
        num_boxes: boxes and targets, >= 1.
        min_pushes: every solution needs at least so many pushes, >= 1; None means two
            per box on average.

    Returns:
        Fresh arrays that belong to the caller: the board, `[H, W]` uint8 codes, and
        actions that solve it, `[M]` int8 (seldom the shortest).

    Raises:
        ValueError: an argument is out of range, or no such level was found.
    """
    height, width = dim
    if not (5 <= height <= MAX_SIDE and 5 <= width <= MAX_SIDE):
        raise InvalidOption(f"generate_level: dim must be 5 to {MAX_SIDE} each; got {dim}.")
    if num_boxes < 1:
        raise InvalidOption(f"generate_level: num_boxes must be >= 1; got {num_boxes}.")
    if not 0 <= seed < 2**63:
        raise InvalidOption(f"generate_level: seed must be in [0, 2**63); got {seed}.")
    pushes = 2 * num_boxes if min_pushes is None else min_pushes
    if pushes < 1:
        raise InvalidOption(f"generate_level: min_pushes must be >= 1; got {min_pushes}.")
    work = new_work(seed, height * width, num_boxes)
    length = _generate(work, height, width, pushes)
    if length < 0:
        raise InvalidOption(
            f"generate_level: no level of {height}x{width} with {num_boxes} boxes and at least "
            f"{pushes} pushes was found in {_MAX_ATTEMPTS} attempts. Use fewer boxes or pushes, "
            "or a larger dim."
        )
    # Undoing a step to the right is a step to the left: 0 <-> 1 and 2 <-> 3.
    return work.cells.reshape(height, width), work.path[:length][::-1] ^ 1

"""The move-and-push rule of Sokoban, for Python and numba."""

from __future__ import annotations

from collections.abc import MutableSequence

from plangym_ext.envs.sokoban.cells import (
    BOX,
    BOX_ON_TARGET,
    FLOOR,
    PLAYER,
    PLAYER_ON_TARGET,
    TARGET,
    WALL,
)

#: Actions, in gym-sokoban's order.
UP, DOWN, LEFT, RIGHT = range(4)
NUM_ACTIONS = 4


def push(cells: MutableSequence[int], width: int, player: int, action: int) -> tuple[int, int]:
    """Move the player one cell, pushing the box ahead if there is room beyond it.

    An impossible move changes nothing. The board must be ringed by walls and the
    arguments valid: nothing is checked here.

    Args:
        cells: `[H * W]` codes, written in place: bytearray, or uint8 array under numba.
        width: W.
        player: index of the player in `cells`.
        action: UP, DOWN, LEFT or RIGHT.

    Returns:
        Index of the player afterwards, and the change in boxes on targets (-1, 0, 1).

    Source: rules after gym-sokoban (Schrader 2018).
    """
    ahead = player + (-width, width, -1, 1)[action]
    found = cells[ahead]
    if found == WALL:
        return player, 0
    gained = 0
    # Codes with a box, and below codes with a target, are neighbours.
    if BOX_ON_TARGET <= found <= BOX:
        # A box is never on the ring, so the cell beyond it exists.
        beyond = ahead + ahead - player
        if cells[beyond] == FLOOR:
            cells[beyond] = BOX
        elif cells[beyond] == TARGET:
            cells[beyond] = BOX_ON_TARGET
            gained = 1
        else:
            return player, 0
        if found == BOX_ON_TARGET:
            gained -= 1
    cells[player] = TARGET if cells[player] == PLAYER_ON_TARGET else FLOOR
    over_target = TARGET <= found <= BOX_ON_TARGET
    cells[ahead] = PLAYER_ON_TARGET if over_target else PLAYER
    return ahead, gained

"""Data augmentation for Sokoban: mirrored and transposed boards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plangym_ext.envs.sokoban.rules import DOWN, LEFT, NUM_ACTIONS, RIGHT, UP

#: By mirror, what each action becomes; the last swaps rows and columns.
_MIRRORS = (
    {UP: DOWN, DOWN: UP, LEFT: LEFT, RIGHT: RIGHT},
    {UP: UP, DOWN: DOWN, LEFT: RIGHT, RIGHT: LEFT},
    {UP: LEFT, DOWN: RIGHT, LEFT: UP, RIGHT: DOWN},
)


def mirrored(
    samples: Mapping[str, NDArray[Any]], draws: NDArray[np.floating[Any]]
) -> dict[str, NDArray[Any]]:
    """Replace every row of a batch by one of its images: 8 of square boards, 4 of others.

    Args:
        samples: what a trainer learns from: "obs" `[N, H, W, C]`; other arrays `[N, 4]` are about
            the actions, and the rest says the same of all images.
        draws: `[N]` in [0, 1), which image each row becomes.

    Returns:
        Fresh arrays by the same names.
    """
    height, width = samples["obs"].shape[1:3]
    mirrors = _MIRRORS if height == width else _MIRRORS[:2]
    # A bit for each mirror: the images are all combinations of them.
    image = (np.asarray(draws) * 2 ** len(mirrors)).astype(np.int64)
    found = {name: np.array(rows) for name, rows in samples.items()}
    for number, becomes in enumerate(mirrors):
        rows = np.flatnonzero(image >> number & 1)
        order = [becomes[action] for action in range(NUM_ACTIONS)]
        for name, given in found.items():
            if name == "obs":
                given[rows] = _reflected(given[rows], number)
            elif given.ndim == 2 and given.shape[1] == NUM_ACTIONS:
                # Each of these mirrors undoes itself, and so does what it makes of actions.
                given[rows] = given[rows][:, order]
    return found


def _reflected(boards: NDArray[Any], mirror: int) -> NDArray[Any]:
    if mirror == 2:
        return boards.transpose(0, 2, 1, 3)
    return np.flip(boards, axis=1 + mirror)

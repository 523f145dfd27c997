"""Scratch arrays and counter-based random numbers of the Sokoban level generator.

Numbers are hashes of a counter: nothing but 64-bit signed products, which Python and compiled
code treat alike.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plangym_ext.core.compiling.jit import allocating_kernel, kernel, kernel_part

_LOW32 = 0xFFFFFFFF
#: Random words are made so many at a time: a loop over them runs on whole vectors.
NUM_WORDS = 128


class Work(NamedTuple):
    """Arrays of one generation; C is H * W cells, K boxes, P longest solution."""

    cells: NDArray[np.uint8]  # [C] codes without the player
    best_cells: NDArray[np.uint8]  # [C], best position met so far
    boxes: NDArray[np.int64]  # [K] cells of the boxes
    distance: NDArray[np.int64]  # [C] walking steps to the nearest target
    arrived: NDArray[np.int8]  # [C] action that entered the cell, below 0 if none did
    queue: NDArray[np.int64]  # [C]
    path: NDArray[np.int8]  # [P] actions of the backward play
    random: NDArray[np.int64]  # [3]: two 32-bit keys and a counter
    words: NDArray[np.int64]  # [NUM_WORDS] 32-bit numbers, those up to the counter used


@allocating_kernel
def new_work(seed: int, size: int, num_boxes: int) -> Work:
    """Return fresh arrays for a board of `size` cells."""
    return Work(
        np.zeros(size, np.uint8),
        np.zeros(size, np.uint8),
        np.zeros(num_boxes, np.int64),
        np.zeros(size, np.int64),
        np.zeros(size, np.int8),
        # `_choose_pull` lists four pulls per box in it.
        np.zeros(max(size, 4 * num_boxes), np.int64),
        np.zeros(16 * size, np.int8),
        np.array([seed & _LOW32, seed >> 32, 0], np.int64),
        np.zeros(NUM_WORDS, np.int64),
    )


@kernel_part
def _mix(word: int) -> int:
    """Scramble a 32-bit number, one to one."""
    word ^= word >> 16
    word = (word * 0x7FEB352D) & _LOW32
    word ^= word >> 15
    word = (word * 0x846CA68B) & _LOW32
    return word ^ (word >> 16)


@kernel_part
def _fill_words(work: Work) -> None:
    """Make the words that follow the counter.

    Source: mixing constants of "lowbias32", C. Wellons,
    hash-prospector (public domain).
    """
    first, second, counter = int(work.random[0]), int(work.random[1]), int(work.random[2])
    for k in range(NUM_WORDS):
        # The counter is hashed before the first key is added: otherwise the numbers of
        # seed 2 would be those of seed 0, two draws later.
        word = _mix((counter + 1 + k) & _LOW32)
        word = _mix((word + first) & _LOW32)
        work.words[k] = _mix((word + second) & _LOW32)


@kernel
def draw(work: Work, n: int) -> int:
    """Draw a uniform integer in [0, n), n < 2**31."""
    used = int(work.random[2]) % NUM_WORDS
    if used == 0:
        _fill_words(work)
    work.random[2] += 1
    return (int(work.words[used]) * n) >> 32

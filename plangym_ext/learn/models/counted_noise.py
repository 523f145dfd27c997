"""Normal numbers by a counter: drawn of a key and a count, without a generator."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mixed(words: Words) -> Words:
    """Return `[...]` uint64 that look random, one for each number; fresh.

    Source: splitmix64 of Steele, Lea & Flood 2014.
    """
    with np.errstate(over="ignore"):
        z = words * _GOLDEN
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: Words = z ^ (z >> np.uint64(31))
    return found


def normals(keys: Words, count: int) -> npt.NDArray[np.float32]:
    """Return `[N, count]` float32 standard normal numbers, a row for each of `[N]` keys; fresh."""
    pairs = -(-count // 2)
    with np.errstate(over="ignore"):
        seeds: Any = mixed(keys)[:, None] + np.arange(1, 2 * pairs + 1, dtype=np.uint64)
    # In (0, 1]: the logarithm of 0 is none. By Box and Muller.
    uniform: Any = ((mixed(seeds) >> np.uint64(11)) + np.uint64(1)) * 2.0**-53
    radius = np.sqrt(-2.0 * np.log(uniform[:, :pairs]))
    angle = 2.0 * np.pi * uniform[:, pairs:]
    both = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return both[:, :count].astype(np.float32)

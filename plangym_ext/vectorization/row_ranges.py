"""How the rows of a batch are cut into the ranges that workers claim."""

from __future__ import annotations

import itertools
import math

import numpy as np

from plangym_ext.vectorization.claims import MAX_RANGES

#: A range is worth claiming if it takes this long: some eight times what the claim costs.
_LEAST_SECONDS = 100e-6
#: A batch that takes no longer than this is not shared: a second worker would be under way
#: only when the first is done.
_ALONE_SECONDS = 50e-6


def split_rows(num_rows: int, num_workers: int, row_seconds: float) -> list[tuple[int, int]]:
    """Ranges `(first, stop)` that cover `num_rows` rows, larger ones first.

    A range is a share of what is left (guided self-scheduling, Polychronopoulos &
    Kuck 1987), but takes at least `_LEAST_SECONDS`: a claim costs about as much as
    stepping a light env. A batch that is too light for that is cut into equal parts.

    Args:
        num_rows: B.
        num_workers: how many will claim ranges.
        row_seconds: what a row is expected to cost.
    """
    if num_workers == 1 or num_rows < 2 or num_rows * row_seconds <= _ALONE_SECONDS:
        return [(0, num_rows)] if num_rows else []
    # A row that takes no time at all makes any range too small.
    share = min(num_rows, _LEAST_SECONDS / max(row_seconds, _LEAST_SECONDS / num_rows))
    smallest = max(math.ceil(share), -(-num_rows // (MAX_RANGES // 2)))
    if num_rows <= 3 * num_workers * smallest:
        edges = [num_rows * k // num_workers for k in range(num_workers + 1)]
        return [(a, b) for a, b in itertools.pairwise(edges) if b > a]
    ranges, first = [], 0
    while first < num_rows:
        left = num_rows - first
        size = min(left, max(smallest, left // (3 * num_workers)))
        ranges.append((first, first + size))
        first += size
    return ranges


def ranges_of(rows: np.ndarray) -> list[tuple[int, int]]:
    """Ranges that cover some rows.

    Single rows, so that one that kills its worker takes no other along; longer ranges if
    there are more rows than the queue can hold.
    """
    size = max(1, -(-len(rows) // MAX_RANGES))
    # Rows that lie between are done, and running them again gives the same.
    return [
        (int(rows[k]), int(rows[min(k + size, len(rows)) - 1]) + 1)
        for k in range(0, len(rows), size)
    ]

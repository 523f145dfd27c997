"""How the rows of a batch are cut into the ranges that workers claim."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np

from plangym_ext.workers.claims import MAX_RANGES

#: A range is worth claiming if it takes this long: some five times what the claim costs.
_LEAST_SECONDS = 100e-6
#: A batch that takes no longer than this is not shared: a second worker would be under way
#: only when the first is done.
_ALONE_SECONDS = 50e-6
#: Bounds of the times by which a share may exceed what it should be. Something is always
#: kept back, for workers do not begin together; and single rows that cost much more are no
#: reason to cut all the others more finely.
_LEAST_UNEVEN, _MOST_UNEVEN = 9 / 8, 3.0


def split_rows(
    num_rows: int, num_workers: int, row_seconds: float, excess: float | None = None
) -> list[tuple[int, int]]:
    """Ranges `(first, stop)` that cover `num_rows` rows, larger ones first.

    Rounds of one range for each worker, equal ones, each round with a share of what is left
    (factoring, Flynn Hummel, Schonberg & Flynn 1992). The share is such that a worker whose
    range takes longer than usual, by as much as was seen, is done with it when all have had
    their part. A range takes at least `_LEAST_SECONDS`: a claim costs about as much as
    stepping a light env. A batch that is too light for that is cut into equal parts.

    Args:
        num_rows: B.
        num_workers: how many will claim ranges.
        row_seconds: what a row is expected to cost.
        excess: by how much one range may take longer than usual, as a part of the time that
            all workers take together; None if it is not known.
    """
    if num_workers == 1 or num_rows < 2 or num_rows * row_seconds <= _ALONE_SECONDS:
        return [(0, num_rows)] if num_rows else []
    # A row that takes no time at all makes any range too small.
    share = min(num_rows, _LEAST_SECONDS / max(row_seconds, _LEAST_SECONDS / num_rows))
    smallest = max(math.ceil(share), -(-num_rows // (MAX_RANGES // 2)))
    # Of the whole, a worker's share is 1/W; a first range with the excess is to be no more.
    apart = 0.0 if excess is None else max(1 - num_workers * excess, 0.0)
    eighths = round(8 / apart) if apart > 1 / _MOST_UNEVEN else round(8 * _MOST_UNEVEN)
    return _cut(num_rows, num_workers, smallest, eighths)


@functools.lru_cache(256)
def _cut(num_rows: int, num_workers: int, smallest: int, eighths: int) -> list[tuple[int, int]]:
    """The ranges, each round a share of what is left over `eighths / 8`; not to be written to."""
    if num_rows <= 3 * num_workers * smallest:
        return _equal_parts(0, num_rows, num_workers)
    uneven = max(eighths / 8, _LEAST_UNEVEN)
    ranges: list[tuple[int, int]] = []
    first = 0
    while first < num_rows:
        left = num_rows - first
        stop = first + num_workers * max(smallest, int(left / (uneven * num_workers)))
        if num_rows - stop < smallest:
            stop = num_rows
        ranges += _equal_parts(first, stop, num_workers)
        first = stop
    return ranges


def _equal_parts(first: int, stop: int, count: int) -> list[tuple[int, int]]:
    """At most `count` ranges, as long as each other or one longer."""
    count = min(count, stop - first)
    edges = [first + (stop - first) * k // count for k in range(count + 1)]
    return list(itertools.pairwise(edges))


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

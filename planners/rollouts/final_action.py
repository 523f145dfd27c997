"""Choice of the move from root statistics: most visited, best, or sampled."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.planners.simulator import Rng


def most_visited(
    visits: npt.NDArray[np.integer[Any]],
    scores: npt.NDArray[np.float64],
    order: npt.NDArray[np.integer[Any]],
) -> int:
    """Return the most visited action; ties by value, then by the given order.

    Args:
        visits: `[A]`, how often each was tried.
        scores: `[A]`, how good each is.
        order: `[A]`, a permutation of the actions.
    """
    top = order[visits[order] == visits.max()]
    return int(top[np.argmax(scores[top])])


def highest(
    visits: npt.NDArray[np.integer[Any]],
    scores: npt.NDArray[np.float64],
    order: npt.NDArray[np.integer[Any]],
) -> int:
    """Return the action with the highest score; ties by visits, then as in `most_visited`.

    Args:
        visits: `[A]`, how often each was tried.
        scores: `[A]`, how good each is; NaN: not known, never returned if one is known.
        order: `[A]`, a permutation of the actions.
    """
    known = np.where(np.isnan(scores), -np.inf, scores)
    # -1 is below any count: only those of the highest score are compared by visits.
    return most_visited(np.where(known == known.max(), visits, -1), known, order)


def sampled(visits: npt.NDArray[np.integer[Any]], temperature: float, rng: Rng) -> int:
    """Draw an action with probability proportional to visits**(1 / temperature).

    Args:
        visits: `[A]`, how often each was tried, at least one of them.
        temperature: above 0.
        rng: draws once per action.
    """
    # The largest of logits + t * Gumbel noise is a draw from softmax(logits / t). Counts to the
    # power of 1 / t would overflow for small t.
    logits = np.where(visits > 0, np.log(np.maximum(visits, 1)), -np.inf)
    return int(np.argmax(logits + temperature * rng.gumbel(size=len(visits))))

"""Random choices of Go-Explore: actions, cells by weight, resampled particles."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.errors import InvalidAnswer, InvalidOption


def check_actions(space: Any) -> None:
    """Refuse an action space that `random_actions` does not support.

    Raises:
        InvalidOption: it is none of Discrete, MultiDiscrete, MultiBinary and bounded Box.
    """
    bounded = hasattr(space, "low") and bool(
        np.isfinite(space.low).all() and np.isfinite(space.high).all()
    )
    if not (hasattr(space, "n") or hasattr(space, "nvec") or bounded):
        raise InvalidOption(
            f"GoExplore: actions must be Discrete, MultiDiscrete, MultiBinary or a bounded Box; "
            f"got {space}. Wrap the env so that they are."
        )


def random_actions(
    space: Any, rng: np.random.Generator, steps: int, rows: int, repeat: float
) -> npt.NDArray[Any]:
    """Return `[steps, rows, *act]`, fresh: each the one before it again, or drawn evenly.

    Args:
        space: of actions.
        rng: draws them.
        steps: H.
        rows: B.
        repeat: probability that the action before is played again.
    """
    drawn = _drawn(space, rng, (steps, rows))
    new = rng.random((steps, rows)) >= repeat
    # Nothing comes before the first.
    new[0] = True
    # Of each step, the last one at or before it whose action is new.
    since = np.maximum.accumulate(np.where(new, np.arange(steps)[:, None], 0), axis=0)
    found: npt.NDArray[Any] = drawn[since, np.arange(rows)]
    return found


def _drawn(space: Any, rng: np.random.Generator, size: tuple[int, int]) -> npt.NDArray[Any]:
    # In this order: MultiDiscrete has a `start`, too, and MultiBinary an `n`.
    shape = (*size, *space.shape)
    if hasattr(space, "nvec"):
        return (space.start + rng.integers(0, space.nvec, shape)).astype(space.dtype)
    if hasattr(space, "start"):
        return (space.start + rng.integers(0, space.n, shape)).astype(space.dtype)
    if hasattr(space, "n"):
        return rng.integers(0, 2, shape).astype(space.dtype)
    if np.issubdtype(space.dtype, np.integer):
        return rng.integers(space.low, space.high, shape, space.dtype, endpoint=True)
    found = space.low + rng.random(shape) * (space.high.astype(np.float64) - space.low)
    # Rounding to the space's own type may step over its edge.
    return np.clip(found.astype(space.dtype), space.low, space.high)


def seen_weights(seen: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return relative weights of cells `[N]`: 1 / sqrt(seen + 1).

    Args:
        seen: `[N]` how many steps ended in each.

    Source: Ecoffet et al. 2021, "First return, then explore", Methods, without domain knowledge.
    """
    return 1.0 / np.sqrt(seen + 1.0)


def checked_weights(weights: Any, count: int) -> npt.NDArray[np.float64]:
    """Return the weights `[N]` of a user's function after a check.

    Raises:
        InvalidAnswer: they are other than `[N]` finite numbers, not negative and not all 0.
    """
    found = np.asarray(weights, np.float64)
    if found.shape != (count,) or not (np.isfinite(found) & (found >= 0)).all() or not found.any():
        raise InvalidAnswer(
            f"weights: must return {(count,)} finite numbers >= 0, not all 0, one per cell; got "
            f"shape {found.shape}, {found.ravel()[:3]}..."
        )
    return found


def drawn_by(
    weights: npt.NDArray[np.float64], count: int, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Return `[count]` indices, sampled by the weights `[N]`, which are not all 0."""
    table = np.cumsum(weights)
    found = np.searchsorted(table, rng.random(count) * table[-1], side="right")
    # Rounding may reach the last sum itself, past the last entry that has a weight.
    return np.minimum(found, np.flatnonzero(weights)[-1]).astype(np.int64)


def resampled(weights: npt.NDArray[np.float64], rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return indices `[B]` of particles, resampled by weights that are not all 0.

    Systematic: particle i has floor or ceil of B * weight / sum followers.

    Source: Kitagawa 1996, "Monte Carlo filter and smoother for non-Gaussian nonlinear state
    space models", of the three schemes that with the least variance.
    """
    count = len(weights)
    table = np.cumsum(weights)
    at = (np.arange(count) + rng.random()) / count * table[-1]
    found = np.searchsorted(table, at, side="right")
    return np.minimum(found, np.flatnonzero(weights)[-1]).astype(np.int64)

"""Action masks of states, from the infos of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.core.infos import info_values
from plangym_ext.core.masks import MASK, checked_mask
from plangym_ext.errors import InvalidObservation


def has_masks(infos: Any) -> bool:
    """Return whether the infos of a batch have action masks."""
    # Those of rows that are of another kind than the first step's are not in the columns.
    own = getattr(infos, "own", {}).values()
    return MASK in infos.keys() or any(MASK in info for info in own)  # noqa: SIM118


def stacked_masks(
    masks: Sequence[npt.NDArray[Any] | None],
) -> npt.NDArray[np.bool_] | None:
    """Return `[L, A]` bool of L masks `[A]`; None allows all, and None is returned if all are."""
    width = next((len(mask) for mask in masks if mask is not None), None)
    if width is None:
        return None
    return np.array([np.ones(width) if mask is None else mask for mask in masks]).astype(np.bool_)


def told_masks(infos: Any, space: Any, count: int) -> list[npt.NDArray[Any] | None]:
    """Return the mask `[A]` of each row's info, or None.

    Args:
        infos: of a batch.
        space: of the actions.
        count: of the rows.

    Raises:
        InvalidObservation: see `checked_mask`.
    """
    if not has_masks(infos):
        return [None] * count
    values, known = info_values(infos, MASK, count)
    pairs = zip(values, known, strict=True)
    return [checked_mask(mask, space, "play") if there else None for mask, there in pairs]


def weights_over_legal(
    weights: npt.NDArray[np.floating[Any]], legal: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float64]:
    """Return weights `[L, A]` that are 0 where illegal.

    A row that gives no legal action any weight becomes uniform over the legal ones; one
    without a legal action is all 0.

    Args:
        weights: `[L, A]`, not negative.
        legal: `[L, A]`.
    """
    found = np.where(legal, weights, 0.0).astype(np.float64)
    weightless = ~(found > 0.0).any(axis=1)
    # `found > 0` is False for NaN too: a row of nothing else becomes uniform.
    found[weightless] = legal[weightless]
    return found


def action_masks(infos: Any, ended: npt.NDArray[np.bool_], num_actions: int) -> Any:
    """Return the legal actions of the states after a step, `[L, A]` bool.

    Args:
        infos: of the step; `action_mask`, if it is there, holds 0 or 1 per action, as
            gymnasium's spaces have it.
        ended: `[L]` bool; nothing is played from these.
        num_actions: A.

    Raises:
        ValueError: a mask has another width.
    """
    if not has_masks(infos):
        return np.ones((len(ended), num_actions), np.bool_)
    values, known = info_values(infos, MASK, len(ended))
    if not known.any():
        return np.ones((len(ended), num_actions), np.bool_)
    if values.shape != (len(ended), num_actions):
        shapes = {np.shape(value) for value in values[known]}
        got = sorted(shapes, key=str) if values.dtype.hasobject else values.shape
        raise InvalidObservation(
            f"search: infos[{MASK!r}] must be one entry per action, {num_actions}; got shape {got}."
        )
    masks = values.astype(np.bool_)
    # A state of which nothing is said allows everything.
    masks[~known] = True
    return masks

"""Which actions the states after a step allow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


def has_masks(infos: Any) -> bool:
    """Return whether the infos of a batch say which actions its states allow."""
    return "action_mask" in infos.keys()  # noqa: SIM118 - iterating gives rows


def stacked_masks(
    masks: Sequence[npt.NDArray[Any] | None],
) -> npt.NDArray[np.bool_] | None:
    """Return `[L, A]` bool of L masks `[A]`; None allows all, and None is returned if all are."""
    width = next((len(mask) for mask in masks if mask is not None), None)
    if width is None:
        return None
    return np.array([np.ones(width) if mask is None else mask for mask in masks]).astype(np.bool_)


def told_masks(infos: Any, count: int) -> list[npt.NDArray[Any] | None]:
    """Return what the info of each row says that its state allows, `[A]`; None: it does not say.

    Args:
        infos: of a batch.
        count: of its rows.
    """
    if not has_masks(infos):
        return [None] * count
    # A row whose infos are of another kind has zeros here.
    return [
        mask if np.any(mask) else infos[i].get("action_mask")
        for i, mask in enumerate(infos["action_mask"])
    ]


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
    """Return which actions the states after a step allow, `[L, A]` bool.

    Args:
        infos: of the step; `action_mask`, if it is there, holds 0 or 1 per action, as
            gymnasium's spaces have it.
        ended: `[L]` bool; nothing is played from these.
        num_actions: A.

    Raises:
        ValueError: a mask has another width, or a row that goes on has none.
    """
    if not has_masks(infos):
        return np.ones((len(ended), num_actions), np.bool_)
    masks = np.asarray(infos["action_mask"]).astype(np.bool_)
    if masks.shape != (len(ended), num_actions):
        raise ValueError(
            f"search: infos['action_mask'] must be one entry per action, {num_actions}; got "
            f"shape {masks.shape}."
        )
    for i in np.flatnonzero(~masks.any(axis=1) & ~ended):
        # As in `told_masks`.
        masks[i] = np.asarray(infos[int(i)].get("action_mask", True), np.bool_)
    return masks

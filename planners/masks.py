"""Action masks, action spaces and root noise of planners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.core.infos import info_values
from plangym_ext.core.masks import MASK, checked_mask, choices_of
from plangym_ext.errors import InvalidObservation, InvalidOption
from plangym_ext.planners.simulator import Rng


def has_masks(infos: Any) -> bool:
    """Return whether the infos of a batch have action masks."""
    # Those of rows that are of another kind than the first step's are not in the columns.
    own = getattr(infos, "own", {}).values()
    return MASK in infos.keys() or any(MASK in info for info in own)  # noqa: SIM118


def stacked_masks(masks: Sequence[npt.NDArray[Any] | None]) -> npt.NDArray[np.bool_] | None:
    """Return L masks as `[L, A]` bool; a mask None allows all; None if all masks are None."""
    width = next((len(mask) for mask in masks if mask is not None), None)
    if width is None:
        return None
    return np.array([np.ones(width) if mask is None else mask for mask in masks]).astype(np.bool_)


def told_mask(info: Any, env: Any) -> npt.NDArray[Any] | None:
    """Return the mask of one info, `[A]`, or None; see `checked_mask`."""
    return checked_mask(info.get(MASK), getattr(env, "action_space", None), "play", choices_of)


def told_masks(infos: Any, space: Any, count: int) -> list[npt.NDArray[Any] | None]:
    """Return the mask `[A]` of each row's info, or None.

    Raises:
        InvalidObservation: see `checked_mask`.
    """
    if not has_masks(infos):
        return [None] * count
    values, known = info_values(infos, MASK, count)
    pairs = zip(values, known, strict=True)
    return [
        checked_mask(mask, space, "play", choices_of) if there else None for mask, there in pairs
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
    # A state without a mask allows all actions.
    masks[~known] = True
    return masks


Floats = npt.NDArray[np.float64]


def discrete_actions(space: Any, planner: str) -> tuple[int, int]:
    """Return the number of actions of a `Discrete` space, and its first action.

    Judged by its attributes: naming the class would import gymnasium here.
    """
    if not (hasattr(space, "n") and hasattr(space, "start")):
        raise InvalidOption(
            f"{planner}: plans over actions of Discrete, MultiDiscrete, MultiBinary and Box parts; "
            f"got the action space {space}. Wrap the env so that its actions are of these."
        )
    return int(space.n), int(space.start)


class Box(NamedTuple):
    """A bounded space of continuous actions."""

    low: Any  # [*act]
    high: Any  # [*act]
    size: int  # D, numbers in an action

    def actions(self, units: Floats) -> npt.NDArray[Any]:
        """Scale `[n, H, D]` float64, clipped to [-1, 1], to fresh actions `[n, H, *act]`."""
        shaped = np.clip(units, -1.0, 1.0).reshape(*units.shape[:2], *self.low.shape)
        wide = self.low.astype(np.float64), self.high.astype(np.float64)
        found = (wide[0] + (shaped + 1.0) * 0.5 * (wide[1] - wide[0])).astype(self.low.dtype)
        # Rounding to the space's own type may step over its edge.
        return np.clip(found, self.low, self.high)

    def units(self, actions: npt.NDArray[Any]) -> Floats:
        """Scale actions `[n, *act]` to fresh `[n, D]` float64 in [-1, 1]."""
        low, wide = self.low.astype(np.float64), self.high.astype(np.float64) - self.low
        # A number that may be one thing only is that, whatever is said of it.
        shares = (actions - low) / np.where(wide > 0.0, wide, 1.0)
        units: Floats = np.clip(shares * 2.0 - 1.0, -1.0, 1.0)
        return units.reshape(len(actions), self.size)


def box_actions(space: Any, planner: str) -> Box:
    """Return the bounds of a space, if it is a bounded `Box` of floats.

    Judged by its attributes: naming the class would import gymnasium here.
    """
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    if low is None or high is None or np.asarray(low).dtype.kind != "f":
        raise InvalidOption(
            f"{planner}: plans over actions of Discrete, MultiDiscrete, MultiBinary and Box parts; "
            f"got the action space {space}. Wrap the env so that its actions are of these."
        )
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise InvalidOption(
            f"{planner}: samples between the bounds of the action space, which must be finite; "
            f"got {space}. Wrap the env so that its actions are bounded, with RescaleAction."
        )
    return Box(low, high, max(1, int(np.prod(low.shape))))


def with_noise(
    prior: npt.NDArray[np.floating[Any]],
    legal: npt.NDArray[np.bool_],
    share: float,
    alpha: float,
    rng: Rng,
) -> npt.NDArray[np.floating[Any]]:
    """Return (1 - share) * prior + share * noise, `[A]`; the noise is over the legal actions.

    Args:
        prior: `[A]` probabilities.
        legal: `[A]`; without any, there is no noise.
        share: of the noise, in [0, 1].
        alpha: concentration of its Dirichlet distribution.
        rng: draws it.

    Source: Silver et al. 2017, "Mastering the game of Go without human knowledge", Methods.
    """
    actions, noise = np.flatnonzero(legal), np.zeros(len(prior))
    if len(actions):
        noise[actions] = rng.dirichlet(np.full(len(actions), alpha))
    return (1.0 - share) * prior + share * noise

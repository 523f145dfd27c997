"""Action sequences interpolated between knots (Spline), or proposed by a policy (Proposal)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import rows_of
from plangym_ext.core.options import Function
from plangym_ext.errors import InvalidAnswer
from plangym_ext.planners.masks import Box
from plangym_ext.planners.request import PlanRequest

Floats = npt.NDArray[np.float64]

SPLINES = ("zero", "linear", "cubic")


class Spline:
    """Joins K knots, evenly spaced in time, to sequences of H actions.

    Args:
        horizon: H.
        num_knots: K, in [1, H]. With K = H the knots are the actions.
        kind: "zero" holds each knot until the next, "linear" joins them by lines,
            "cubic" by a Catmull-Rom spline, which is smooth and may overshoot.
        hold: "zero" holds each knot for exactly so many steps, the last one for what is
            left of the horizon; None: for H / K, rounded one way or the other.

    Source: Howell et al. 2022, "Predictive Sampling", section 3 (splines of these
    three orders as a parametrisation of actions).
    """

    def __init__(self, horizon: int, num_knots: int, kind: str, hold: int | None = None) -> None:
        basis = _basis(horizon, num_knots, kind, hold)
        self.horizon, self.num_knots = horizon, num_knots
        # An action hangs on at most four knots. Adding those up one by one, rather
        # than by a matrix product, rounds alike however many rows there are.
        self._near = np.argsort(-abs(basis), axis=1, kind="stable")[:, :4]
        self._weights = np.take_along_axis(basis, self._near, axis=1)
        self._fit = np.eye(num_knots) if num_knots == horizon else np.linalg.pinv(basis)

    def sequences(self, knots: Floats) -> Floats:
        """Return fresh `[n, H, D]` float64 actions for `[n, K, D]` knots."""
        total = np.zeros((len(knots), self.horizon, knots.shape[2]))
        for near, weight in zip(self._near.T, self._weights.T, strict=True):
            total += weight[:, None] * knots[:, near]
        return total

    def shifted(self, knots: Floats) -> Floats:
        """Return `[n, K, D]` knots of the sequences one step later, their last action held.

        They fit the shifted sequence as well as K knots can (least squares), so that a
        sequence moves on by one step even where a knot stands for several.
        """
        later = self.sequences(knots)
        later[:, :-1] = later[:, 1:]
        return self.fitted(later)

    def fitted(self, sequences: Floats) -> Floats:
        """Return fresh `[n, K, D]` knots, the nearest to `[n, H, D]` sequences (least squares)."""
        total = np.zeros((len(sequences), self.num_knots, sequences.shape[2]))
        for t in range(self.horizon):
            total += self._fit[:, t, None] * sequences[:, None, t]
        return total


def _basis(horizon: int, num_knots: int, kind: str, hold: int | None) -> Floats:
    """Return `[H, K]`: how much each knot counts in each action."""
    if num_knots == horizon:
        return np.eye(horizon)
    if kind == "zero" or num_knots == 1:
        steps = np.arange(horizon)
        held = steps * num_knots // horizon if hold is None else steps // min(hold, horizon)
        return np.eye(num_knots)[held]
    at = np.linspace(0.0, num_knots - 1.0, horizon)
    left = np.minimum(at.astype(np.int64), num_knots - 2)
    s = (at - left)[:, None]
    one = np.eye(num_knots)
    if kind == "linear":
        return (1.0 - s) * one[left] + s * one[left + 1]
    # Hermite's polynomials on the knots and on their slopes, which are central
    # differences, one-sided at the ends.
    slope = np.gradient(one, axis=0)
    return (
        (1 + 2 * s) * (1 - s) ** 2 * one[left]
        + s**2 * (3 - 2 * s) * one[left + 1]
        + s * (1 - s) ** 2 * slope[left]
        - s**2 * (1 - s) * slope[left + 1]
    )


# obs [n, *obs] -> actions [n, *act]
ActionPolicy = Annotated[Callable[[Any], npt.ArrayLike], Function()]


class Proposal(NamedTuple):
    """A policy's action sequences from B states."""

    units: Floats  # [B, H, D], in which the space is [-1, 1]; 0 after an ending
    steps: npt.NDArray[np.int64]  # [B] that were taken


def proposed(request: PlanRequest, box: Box, policy: ActionPolicy, horizon: int) -> Proposal:
    """Play a policy in the model, from the requested states.

    Args:
        request: B states and their observations.
        box: its action space.
        policy: is asked before every step.
        horizon: H, most steps.

    Raises:
        InvalidAnswer: it answered with what are no actions.
    """
    units = np.zeros((request.batch, horizon, box.size))
    steps = np.zeros(request.batch, np.int64)
    going, states, obs = np.arange(request.batch), request.states, request.needed_obs("a policy")
    for t in range(horizon):
        actions = _checked(policy(obs), (len(going), *box.low.shape))
        units[going, t] = box.units(actions)
        # As sequences are brought to the space, so that the rest follows from what is played.
        played = box.actions(units[going, t, None])[:, 0]
        out = request.env.step_batch(played, states=states)
        steps[going] += 1
        on = np.flatnonzero(~(np.asarray(out.terminateds) | np.asarray(out.truncateds)))
        if on.size == 0:
            break
        going, states, obs = going[on], out.states[on], rows_of(out.obs, on)
    return Proposal(units, steps)


def _checked(answer: npt.ArrayLike, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    actions = np.asarray(answer)
    is_floats = actions.dtype.kind == "f" and not np.ma.isMaskedArray(answer)
    if actions.shape != shape or not is_floats or not np.isfinite(actions).all():
        raise InvalidAnswer(
            f"policy: must return {shape} finite floats, an action per observation; got shape "
            f"{actions.shape} {actions.dtype}, {actions.ravel()[:8]}. Return all actions at once, "
            f"without nan, inf and masks."
        )
    return actions

"""Proposal: a policy's action sequences from given states, as candidates for planners."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import rows_of
from plangym_ext.errors import InvalidAnswer
from plangym_ext.planners.action_spaces import Box
from plangym_ext.planners.continuous.spline import Floats
from plangym_ext.planners.request import PlanRequest

# obs [n, *obs] -> actions [n, *act]
ActionPolicy = Callable[[Any], npt.ArrayLike]


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

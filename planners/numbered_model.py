"""NumberedModel: joint actions by number, where all parts are choices and there are not too many.

Searches over discrete actions plan in an env whose actions are numbered, and plans are told in
the env's own actions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.action_parts import Parts
from plangym_ext.arrays.nested import rows_of
from plangym_ext.core.masks import MASK
from plangym_ext.planners.adapted_model import AdaptedModel, mask_of, masks_in, told_plan
from plangym_ext.planners.plans import Plan
from plangym_ext.planners.simulator import SearchModel, States

#: So many joint actions at most are numbered: nodes of trees have an entry for each.
MOST_JOINT_ACTIONS = 4096


class Numbers(NamedTuple):
    """The space of the numbers of actions; it looks like a `Discrete`."""

    n: int
    start: int = 0


class NumberedModel(AdaptedModel):
    """A model whose joint actions are numbers 0, ..., N - 1; the last part changes fastest.

    Args:
        model: the env.
        parts: of its actions, all of them choices.

    Attributes:
        actions: `[N, *act]`, the joint actions, nested as the space.
        choices: `[N, P]`, the choice of each part in them, from 0.
    """

    def __init__(self, model: SearchModel, parts: Parts) -> None:
        super().__init__(model, parts)
        self.choices = np.stack(
            [part.ravel() for part in np.indices(tuple(parts.counts.tolist()))], axis=1
        )
        self.action_space = Numbers(len(self.choices))
        self.actions = parts.joined(self.choices)

    def rollout_batch(self, actions: npt.NDArray[Any], states: States) -> Any:
        """Play numbers `[B, H]` from `states`; see `SearchModel.rollout_batch`."""
        rows = rows_of(self.actions, np.asarray(actions))
        return self._told(self._model.rollout_batch(rows, states=states))

    def masks(self, legal: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return which joint actions are legal, `[L, N]`, of masks of all parts `[L, C]`."""
        found: npt.NDArray[np.bool_] = np.all(
            legal[:, self.choices + self._parts.begins[:-1]], axis=2
        )
        return found

    def planned(self, planner: Any, states: States, rngs: Any, obs: Any, legal: Any) -> list[Plan]:
        """Return what a planner plans by numbers; see `AdaptedModel.planned`."""
        masks = None
        if legal is not None:
            masks = self.masks(np.stack([mask_of(self._parts, row) for row in legal]))
        plans = planner.plan_batch(self, states, rngs=rngs, obs=obs, legal=masks)
        return [self._told_plan(plan) for plan in plans]

    def _told_plan(self, plan: Plan) -> Plan:
        later = None if plan.actions is None else rows_of(self.actions, plan.actions)
        return told_plan(plan, rows_of(self.actions, plan.action), actions=later)

    def _step(self, actions: npt.NDArray[Any], states: States) -> Any:
        return self._model.step_batch(rows_of(self.actions, np.asarray(actions)), states=states)

    def _told(self, result: Any) -> Any:
        """Return a result with masks of joint actions."""
        legal = masks_in(self._parts, getattr(result, "infos", None), len(result.terminateds))
        if legal is None:
            return result
        columns = {name: result.infos[name] for name in result.infos.keys()}  # noqa: SIM118
        return result._replace(infos={**columns, MASK: self.masks(legal)})

"""VectorModel: actions of all kinds as vectors, for planners that sample continuous actions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.action_parts import Floats, Parts
from plangym_ext.planners.adapted_model import AdaptedModel, told_plan
from plangym_ext.planners.plans import Plan
from plangym_ext.planners.simulator import SearchModel, States
from plangym_ext.states.envelope import state_content


class Vectors:
    """The space of the vectors; it looks like a `Box`.

    Args:
        parts: of the actions.
        space: which the vectors stand for.

    Attributes:
        low: `[D]` float64, the lower bounds.
        high: `[D]` float64, the upper ones.
    """

    def __init__(self, parts: Parts, space: Any) -> None:
        widths = np.maximum(parts.counts, 1)
        choices = parts.counts > 0
        self.low = np.repeat(np.where(choices, -1.0, parts.low), widths)
        self.high = np.repeat(np.where(choices, 1.0, parts.high), widths)
        self._space = space

    def __str__(self) -> str:
        return str(self._space)


class VectorModel(AdaptedModel):
    """A model whose actions are vectors `[D]`: a score for each choice, and the numbers.

    Of each part the legal choice with the highest score is played.
    """

    def __init__(self, model: SearchModel, parts: Parts) -> None:
        super().__init__(model, parts)
        self.action_space = Vectors(parts, model.action_space)

    def rollout_batch(self, actions: npt.NDArray[Any], states: States) -> Any:
        """Play vectors `[B, H, D]` from `states`; see `SearchModel.rollout_batch`."""
        if self._differs:
            return self._one_by_one(actions, states)
        rows = self._parts.joined(self._values(actions, None))
        return self._model.rollout_batch(rows, states=states)

    def planned(self, planner: Any, states: States, rngs: Any, obs: Any, legal: Any) -> list[Plan]:
        """Return what a planner plans over vectors; see `AdaptedModel.planned`."""
        self._begin(planner, states, obs, legal)
        told = self._recalled([state_content(state) for state in states])
        plans = planner.plan_batch(self, states, rngs=rngs, obs=obs)
        return [
            self._told_plan(plan, None if told is None else told[i : i + 1])
            for i, plan in enumerate(plans)
        ]

    def _told_plan(self, plan: Plan, told: Floats | None) -> Plan:
        action = self._parts.joined(self._values(plan.action[None], told)[0])
        # What later states allow is known while they are planned in.
        later = None if self._differs else self._parts.joined(self._values(plan.actions, None))
        return told_plan(plan, action, actions=later)

    def _step(self, actions: npt.NDArray[Any], states: States) -> Any:
        told = self._recalled([state_content(state) for state in states])
        return self._model.step_batch(self._parts.joined(self._values(actions, told)), states)

    def _values(self, vectors: Any, told: Floats | None) -> Floats:
        """Return the parts `[..., P]` of vectors `[..., D]` where choices are weighted so."""
        counts, begins = self._parts.counts, self._parts.begins
        found, at = np.zeros((*vectors.shape[:-1], len(counts))), 0
        for part, count in enumerate(counts.tolist()):
            scores = vectors[..., at : at + max(count, 1)]
            if count and told is not None:
                legal = told[:, begins[part] : begins[part + 1]] > 0.0
                scores = np.where(legal, scores, -np.inf)
            found[..., part] = scores.argmax(axis=-1) if count else scores[..., 0]
            at += max(count, 1)
        return found

"""Joint actions by number: MultiDiscrete, MultiBinary, and Dict and Tuple of discrete parts.

Searches over discrete actions plan in an env whose actions are numbered, and plans are told in
the env's own actions.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import mapped, rows_of
from plangym_ext.core.infos import info_values
from plangym_ext.core.masks import MASK, mask_width
from plangym_ext.errors import InvalidObservation, InvalidOption
from plangym_ext.planners.kept import NothingKept
from plangym_ext.planners.masks import has_masks
from plangym_ext.planners.plans import Plan
from plangym_ext.planners.simulator import SearchModel, States

if TYPE_CHECKING:  # it brings gymnasium, which models of one's own can do without
    from plangym_ext.arrays.spaces import SpaceLayout

#: So many joint actions at most are numbered: nodes of trees have an entry for each.
MOST_JOINT_ACTIONS = 4096


#: What planners look at beside the steps. Other ways to step would take the env's own actions.
_SHARED = (
    *("observation_space", "metadata", "incomparable", "tells_masks", "frameskip"),
    *("players", "reseeded"),
)


class Numbers(NamedTuple):
    """The space of the numbers of joint actions; it looks like a `Discrete`."""

    n: int
    start: int = 0


class NumberedModel:
    """A model whose joint actions are numbers 0, ..., N - 1; the last part changes fastest.

    Args:
        model: of which `action_space` has discrete parts.
        layout: of that space.
        counts: choices of each part, in the order of the layout's leaves.

    Attributes:
        actions: `[N, *act]`, the joint actions, nested as the space.
        parts: `[N, P]`, the choice of each part in them, from 0.
    """

    def __init__(self, model: SearchModel, layout: SpaceLayout, counts: Sequence[int]) -> None:
        self._model, self._counts = model, counts
        self.action_space = Numbers(math.prod(counts))
        self.parts = np.stack([part.ravel() for part in np.indices(counts)], axis=1)
        self.actions = _actions(layout, self.parts)

    def __getattr__(self, name: str) -> Any:
        if name in _SHARED:
            return getattr(self._model, name)
        raise AttributeError(name)

    def step_batch(self, actions: npt.NDArray[Any], states: States) -> Any:
        """Step `states` by the numbers `[B]` of joint actions; see `SearchModel.step_batch`."""
        return self._told(self._model.step_batch(self._rows(actions), states=states))

    def rollout_batch(self, actions: npt.NDArray[Any], states: States) -> Any:
        """Play numbers `[B, H]` from `states`; see `SearchModel.rollout_batch`."""
        return self._told(self._model.rollout_batch(self._rows(actions), states=states))

    def masks(self, masks: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Return which joint actions are legal, `[L, N]`, of masks of all parts `[L, sum]`.

        Raises:
            InvalidObservation: they have another width.
        """
        width = sum(self._counts)
        if masks.ndim != 2 or masks.shape[1] != width:
            raise InvalidObservation(
                f"the mask of an action of {len(self._counts)} parts must have a number for each "
                f"of their {width} choices, one part after the other; got shape {masks.shape[1:]}."
            )
        legal = masks.astype(np.bool_)
        begins = np.cumsum([0, *self._counts[:-1]])
        found: npt.NDArray[np.bool_] = np.all(legal[:, self.parts + begins], axis=2)
        return found

    def planned(self, planner: Any, states: States, rngs: Any, obs: Any, legal: Any) -> list[Plan]:
        """Return what a planner plans by numbers, told in the env's own actions.

        Arguments are those of `Planner.plan_batch`; `legal` has a number for each choice of each
        part, `[B, sum]`.
        """
        masks = None if legal is None else self.masks(np.asarray(legal))
        plans = planner.plan_batch(self, states, rngs=rngs, obs=obs, legal=masks)
        return [self._told_plan(plan) for plan in plans]

    def _told_plan(self, plan: Plan) -> Plan:
        action = mapped(np.copy, rows_of(self.actions, plan.action))
        # A number that is a part of its own comes as numpy's scalar, as its space has it.
        action = mapped(lambda leaf: leaf if leaf.ndim else leaf[()], action)
        later = None if plan.actions is None else rows_of(self.actions, plan.actions)
        return dataclasses.replace(plan, action=action, actions=later)

    def _rows(self, numbers: npt.NDArray[Any]) -> Any:
        return rows_of(self.actions, np.asarray(numbers))

    def _told(self, result: Any) -> Any:
        """Return a result with masks of joint actions."""
        infos = getattr(result, "infos", None)
        if infos is None or not has_masks(infos):
            return result
        values, known = info_values(infos, MASK, len(result.terminateds))
        legal = np.ones((len(known), self.action_space.n), np.bool_)
        if known.any():
            legal[known] = self.masks(np.stack([np.asarray(row) for row in values[known]]))
        columns = {name: infos[name] for name in infos.keys()}  # noqa: SIM118 - no mapping
        return result._replace(infos={**columns, MASK: legal})


def numbered(model: SearchModel, planner: str) -> NumberedModel | None:
    """Return the model with its joint actions numbered; None if its actions are of another kind.

    Args:
        model: of which every leaf of the action space is discrete, and which has several parts.
        planner: who asks, as messages call it.

    Raises:
        InvalidOption: there are more joint actions than can be numbered.
    """
    space: Any = getattr(model, "action_space", None)
    # Of a Discrete and a Box nothing is numbered, and gymnasium is not imported.
    is_plain = mask_width(space) is not None and not hasattr(space, "nvec")
    if is_plain or not any(hasattr(space, name) for name in ("spaces", "nvec", "n")):
        return None
    from plangym_ext.arrays.spaces import SpaceLayout

    layout = SpaceLayout(space, objects=True)
    counts: list[int] = []
    for leaf in layout.leaves:
        choices = _choices(leaf.space)
        if choices is None:
            return None
        counts += choices
    if not counts:
        return None
    total = math.prod(counts)
    if total > MOST_JOINT_ACTIONS:
        raise InvalidOption(
            f"{planner}: numbers joint actions, at most {MOST_JOINT_ACTIONS} of them; {space} has "
            f"{total}. Wrap the env so that an action has fewer parts or choices."
        )
    return NumberedModel(model, layout, counts)


class KeptModel(NothingKept):
    """The numbered model of the env that was planned in last; pickles and copies have none.

    Attributes:
        plain: the last env that has no joint actions to be numbered.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Drop it."""
        self.plain: Any = None
        self._env: Any = None
        self._found: NumberedModel | None = None

    def of(self, env: SearchModel, planner: str) -> NumberedModel | None:
        """Return `numbered(env, planner)`: one model as long as the env is the same."""
        # A search that is kept between moves belongs to the model that it has stepped.
        if self._env is not env:
            found = numbered(env, planner)
            if found is None:
                self.plain = env
                return None
            self._env, self._found = env, found
        return self._found


def _choices(space: Any) -> list[int] | None:
    """Return the choices of each number of a leaf, in order; None if it is not discrete."""
    if hasattr(space, "nvec"):
        return [int(count) for count in np.ravel(space.nvec)]
    if hasattr(space, "n") and hasattr(space, "start"):
        return [int(space.n)]
    if hasattr(space, "n"):  # MultiBinary
        return [2] * math.prod(space.shape)
    return None


def _actions(layout: SpaceLayout, parts: npt.NDArray[np.int_]) -> Any:
    """Return `[N, *act]` of the choices `[N, P]` of all numbers, nested as the space."""
    found, begin = [], 0
    for leaf in layout.leaves:
        end = begin + math.prod(leaf.shape)
        rows = parts[:, begin:end].reshape(len(parts), *leaf.shape)
        found.append((rows + np.asarray(getattr(leaf.space, "start", 0))).astype(leaf.dtype))
        begin = end
    return layout.join(tuple(found))

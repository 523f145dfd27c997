"""AdaptedModel: base class of models that convert a planner's actions to the env's actions."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.action_parts import Floats, Parts
from plangym_ext.arrays.nested import mapped, rows_of, write_rows
from plangym_ext.core.infos import info_values
from plangym_ext.core.masks import MASK, flat_mask
from plangym_ext.errors import InvalidObservation, InvalidOption
from plangym_ext.planners.masks import has_masks
from plangym_ext.planners.plans import Plan
from plangym_ext.planners.simulator import SearchModel, States
from plangym_ext.states.envelope import state_content

#: What planners look at beside the steps. Other ways to step would take the env's own actions.
_SHARED = (
    *("observation_space", "metadata", "incomparable", "tells_masks", "frameskip"),
    *("players", "reseeded", "plan_clock"),
)

# obs [L, *obs] -> distributions [L, W], see `Parts`
Proposal = Callable[[Any], npt.ArrayLike]


class Played(NamedTuple):
    """Results of n sequences of steps, as a `Rollout`."""

    states: States  # [n, S] after the last step taken
    obs: Any  # [n, *obs]
    rewards: Floats  # [n, H], zero after an ending
    terminateds: npt.NDArray[np.bool_]  # [n]
    truncateds: npt.NDArray[np.bool_]  # [n]
    steps: npt.NDArray[np.int32]  # [n]
    infos: Any  # masks of the last states, if there are any


class AdaptedModel(ABC):
    """Abstract base of models that present an env's actions as numbers or vectors.

    Args:
        model: the env.
        parts: of its actions.
        proposal: says how they are distributed; None: evenly.

    Attributes:
        action_space: of the numbers or vectors.
    """

    action_space: Any

    def __init__(self, model: SearchModel, parts: Parts, proposal: Proposal | None = None) -> None:
        self._model, self._parts, self._proposal = model, parts, proposal
        #: Distributions of the actions of states by their contents, where not all are alike.
        self._known: dict[bytes, Floats] = {}

    def __getattr__(self, name: str) -> Any:
        if name in _SHARED:
            return getattr(self._model, name)
        raise AttributeError(name)

    def __repr__(self) -> str:
        """Return the env's own text: messages are about it."""
        return repr(self._model)

    @abstractmethod
    def _step(self, actions: npt.NDArray[Any], states: States) -> Any:
        """Step `states` `[B, S]` by numbers or vectors `[B, ...]`; the answer is the model's."""

    @abstractmethod
    def planned(self, planner: Any, states: States, rngs: Any, obs: Any, legal: Any) -> list[Plan]:
        """Return a planner's plans in this model, converted to the env's own actions.

        Arguments are those of `Planner.plan_batch`; `legal` has a number for each choice of each
        part, `[B, C]`.
        """

    def step_batch(self, actions: npt.NDArray[Any], states: States) -> Any:
        """Step `states` by numbers or vectors `[B, ...]`; see `SearchModel.step_batch`."""
        return self._told(self._step(actions, states))

    # What states allow ----------------------------------------------------------

    @property
    def _differs(self) -> bool:
        """Whether states differ in how their actions are distributed, as far as is known."""
        told = bool(self._known) or getattr(self._model, "tells_masks", False)
        return told or self._proposal is not None

    def _begin(self, planner: Any, states: States, obs: Any, legal: Any) -> None:
        """Remember how the actions of the states `[B, S]` of a plan are distributed."""
        # The nodes of kept trees are stepped from again.
        if not getattr(planner, "keep_tree", False):
            self._known.clear()
        if legal is not None:
            legal = np.stack([mask_of(self._parts, row) for row in legal])
        if self._proposal is not None and obs is None:
            raise InvalidOption(
                f"{type(planner).__name__}: a proposal needs obs, one per state, {len(states)}; "
                f"got none. Pass what reset or step returned beside the state."
            )
        self._remember(states, obs, legal)

    def _remember(self, states: States, obs: Any, legal: npt.NDArray[np.bool_] | None) -> Floats:
        """Return the distributions `[L, W]` of the actions of L states, and keep them in mind."""
        count = len(states)
        found = self._parts.no_preference(count)
        if self._proposal is not None and count:
            found = self._parts.checked(self._proposal(obs), count)
        if legal is not None:
            found = self._parts.allowed(found, legal)
        if legal is not None or self._proposal is not None:
            self._known.update(zip(map(state_content, states), found, strict=True))
        return found

    def _recalled(self, contents: list[bytes]) -> Floats | None:
        """Return the distributions `[L, W]` of states; None: all have no preference."""
        if not self._known:
            return None
        rows = [self._known.get(content) for content in contents]
        default = self._parts.no_preference(1)[0]
        return np.stack([default if row is None else row for row in rows])

    def _told(self, result: Any) -> Any:
        """Remember what a result says of its states; return it with masks for the planner."""
        count = len(result.terminateds)
        legal = masks_in(self._parts, getattr(result, "infos", None), count)
        if legal is None and self._proposal is None:
            return result
        on = np.flatnonzero(~(np.asarray(result.terminateds) | np.asarray(result.truncateds)))
        allowed = None if legal is None else legal[on]
        found = self._remember(result.states[on], rows_of(result.obs, on), allowed)
        if legal is None:
            return result
        playable = np.ones(count, np.bool_)
        playable[on] = self._parts.playable(found)
        columns = {name: result.infos[name] for name in result.infos.keys()}  # noqa: SIM118
        return result._replace(infos={**columns, MASK: self._masks(playable)})

    def _masks(self, playable: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return the masks for the planner of states that do or do not allow an action, `[L]`."""
        return playable[:, None]

    def _one_by_one(self, actions: npt.NDArray[Any], states: States) -> Played:
        """Play `actions` `[n, H, ...]` from `states` in one `step_batch` for each step."""
        n, horizon = actions.shape[:2]
        rewards, steps = np.zeros((n, horizon)), np.zeros(n, np.int32)
        ends = np.zeros((2, n), np.bool_)
        going, now, last, masks, obs = np.arange(n), states, np.array(states), None, None
        for t in range(horizon):
            out = self.step_batch(actions[going, t], states=now)
            if obs is None:
                obs = mapped(np.array, out.obs)
            if out.states.shape[1] > last.shape[1]:  # an env that has widened its rows
                last = np.pad(last, ((0, 0), (0, out.states.shape[1] - last.shape[1])))
            write_rows(obs, going, out.obs)
            rewards[going, t], steps[going], last[going] = out.rewards, t + 1, out.states
            ends[:, going] = out.terminateds, out.truncateds
            if has_masks(out.infos):
                masks = np.ones((n, *out.infos[MASK].shape[1:]), np.bool_) if t == 0 else masks
                masks[going] = out.infos[MASK]  # type: ignore[index]
            on = np.flatnonzero(~ends[:, going].any(axis=0))
            going, now = going[on], out.states[on]
            if not going.size:
                break
        infos = {} if masks is None else {MASK: masks}
        return Played(last, obs, rewards, ends[0], ends[1], steps, infos)


def told_plan(plan: Plan, action: Any, **changes: Any) -> Plan:
    """Return a plan converted to the env's own actions.

    Args:
        plan: in numbers or vectors.
        action: the env's own, with arrays for leaves.
        changes: of other fields of the plan.
    """
    # A number that is a part of its own comes as numpy's scalar, as its space has it.
    own = mapped(lambda leaf: np.copy(leaf) if np.ndim(leaf) else np.asarray(leaf)[()], action)
    return dataclasses.replace(plan, action=own, **changes)


def masks_in(parts: Parts, infos: Any, count: int) -> npt.NDArray[np.bool_] | None:
    """Return `[count, C]` bool, the legal choices in some states; None without masks.

    Raises:
        InvalidObservation: a mask has another width.
    """
    if infos is None or not has_masks(infos):
        return None
    values, known = info_values(infos, MASK, count)
    legal = np.ones((count, int(parts.counts.sum())), np.bool_)
    for i in np.flatnonzero(known).tolist():
        legal[i] = mask_of(parts, values[i])
    return legal


def mask_of(parts: Parts, told: Any) -> npt.NDArray[np.bool_]:
    """Return a mask of all parts in any form as `[C]`, one number for each choice.

    Raises:
        InvalidObservation: it has another width.
    """
    row, width = np.ravel(flat_mask(told)), int(parts.counts.sum())
    if row.shape != (width,):
        raise InvalidObservation(
            f"the mask of an action of {len(parts.counts)} parts must have a number for each of "
            f"their {width} choices, one part after the other; got shape {row.shape}."
        )
    return row.astype(np.bool_)

"""EpisodeRecord: arrays of one played episode as training data. Imports no torch."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import stacked
from plangym_ext.errors import InvalidOption
from plangym_ext.planners.games import Step
from plangym_ext.planners.masks import stacked_masks
from plangym_ext.planners.plans import Budget, Plan

#: Records have no states.
_NO_STATE = np.zeros(0, np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class EpisodeRecord:
    """The recorded data of one episode of T steps.

    Attributes:
        seed: what it was played with.
        observations: `[T + 1, *obs]`, the last one after the last step; nested as the space
            if the recorder was given it.
        actions: `[T, *act]`, elements of the action space, nested as it is.
        rewards: `[T]` float64.
        terminated: it came to an end. If not it was cut, by the env or the collector.
        truncated: the env cut it.
        root_values: `[T]` float64, each plan's value; NaN where there was none.
        policies: `[T, A]` float64, each plan's weights; None if the planner has none.
        visits: `[T, A]` int64, each plan's; None if the planner counts none, or does not
            choose by them.
        q: `[T, A]` float64, each plan's, NaN where unknown; None if there are none.
        legal: `[T, A]` bool; None: everything was.
        final_value: what the last observation is worth, by an evaluator; None: unknown.
            It stands for what would follow an episode that was cut.
        sides: `[T + 1]` float64, of two players: 1 where the player of the first step is to move,
            -1 where the other player is; None: there is one player. Rewards and values are the
            mover's.
        attributes: anything else, such as `{"solved": True}`.
        budget: what all plans cost together.
    """

    seed: int
    observations: Any
    actions: Any
    rewards: npt.NDArray[np.float64]
    terminated: bool
    truncated: bool
    root_values: npt.NDArray[np.float64]
    policies: npt.NDArray[np.float64] | None = None
    visits: npt.NDArray[np.int64] | None = None
    q: npt.NDArray[np.float64] | None = None
    legal: npt.NDArray[np.bool_] | None = None
    final_value: float | None = None
    sides: npt.NDArray[np.float64] | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)

    @property
    def length(self) -> int:
        """T, the number of steps taken."""
        return len(self.rewards)

    @property
    def return_(self) -> float:
        """The undiscounted sum of rewards."""
        # One by one, as they were earned: numpy adds in pairs, which may round otherwise.
        return float(sum(self.rewards.tolist()))


class EpisodeRecorder:
    """Records one episode, step by step.

    Args:
        seed: what it is played with.
        obs: `[*obs]` after the reset; copied, like all that follow.
        legal: `[A]` bool, what may be played first; None: everything.
        space: of the observations; needed where these are more than one array each.

    Raises:
        InvalidOption: it is, and was not given.
    """

    def __init__(self, seed: int, obs: Any, legal: Any = None, *, space: Any = None) -> None:
        self.seed = seed
        if space is None and isinstance(obs, Mapping | tuple):
            raise InvalidOption(
                f"EpisodeRecorder: observations nested in a {type(obs).__name__} are recorded by "
                f"their space; got None. Pass space=env.observation_space."
            )
        self._layout = None if space is None else _layout_of(space)
        # An env may write its next observation into the same array.
        self._observations = [copy.deepcopy(obs)]
        self._legal = [legal]
        self._plans: list[Plan] = []
        self._rewards: list[float] = []
        self._ended = (False, False)

    def __len__(self) -> int:
        return len(self._plans)

    def add(
        self,
        plan: Plan,
        obs: Any,
        reward: float,
        *,
        terminated: bool,
        truncated: bool,
        legal: Any = None,
    ) -> None:
        """Record a step.

        Args:
            plan: why its action was played.
            obs: `[*obs]` after the step.
            reward: what it earned.
            terminated: the episode has ended.
            truncated: the env cut it.
            legal: `[A]` bool, what may be played next; None: everything.
        """
        self.take(plan, Step(_NO_STATE, obs, float(reward), terminated, truncated, legal))

    def take(self, plan: Plan, step: Step) -> None:
        """Record a step of a game; see `add`."""
        self._plans.append(plan)
        self._observations.append(copy.deepcopy(step.obs))
        self._legal.append(step.legal)
        self._rewards.append(step.reward)
        self._ended = bool(step.terminated), bool(step.truncated)

    def _stacked_observations(self) -> Any:
        if self._layout is not None:
            return self._layout.stack(self._observations)
        return np.stack([np.asarray(obs) for obs in self._observations])

    def record(
        self, attributes: Mapping[str, Any] | None = None, final_value: float | None = None
    ) -> EpisodeRecord:
        """Return the episode so far; see `EpisodeRecord` for the arguments.

        Raises:
            ValueError: no step was taken.
        """
        plans = self._plans
        if not plans:
            raise InvalidOption("EpisodeRecorder: a record needs at least one step; got none.")
        return EpisodeRecord(
            seed=self.seed,
            observations=self._stacked_observations(),
            actions=stacked([plan.action for plan in plans]),
            rewards=np.array(self._rewards, np.float64),
            terminated=self._ended[0],
            truncated=self._ended[1],
            root_values=np.array([plan.value for plan in plans], np.float64),
            # None if a single plan has none: targets are of all steps or of none.
            policies=_stacked([plan.weights for plan in plans]),
            # Counts of what was drawn say nothing of what is good: they are no target.
            visits=_stacked([plan.visits if plan.chosen_by_visits else None for plan in plans]),
            q=_stacked([plan.q for plan in plans]),
            # The mask of the last observation belongs to an action that was never taken.
            legal=stacked_masks(self._legal[:-1]),
            final_value=final_value,
            attributes=dict(attributes or {}),
            budget=sum((plan.budget for plan in plans), Budget()),
        )


def _layout_of(space: Any) -> Any:
    # Imported here: it needs gymnasium, which most that read records do not.
    from plangym_ext.arrays.spaces import SpaceLayout

    return SpaceLayout(space, objects=True)


def _stacked(rows: list[Any]) -> Any:
    """Return `[T, A]`, None if any is None."""
    return None if any(row is None for row in rows) else np.stack(rows)

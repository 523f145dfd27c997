"""What every planner promises, and what it asks of the env it plans over.

Planners see an env only through `SearchModel`: restore these rows, play these
actions. Nothing here knows how, or in how many processes, that is done.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

States = npt.NDArray[np.uint8]
Rng = np.random.Generator


class Transitions(Protocol):
    """Result of `SearchModel.step_batch`; a named tuple in practice."""

    @property
    def states(self) -> States:
        """`[B, S]` uint8, the rows after the step."""

    @property
    def obs(self) -> Any:
        """`[B, *obs]`, what a policy sees in `states`."""

    @property
    def rewards(self) -> npt.NDArray[np.float64]:
        """`[B]` float64, in the env's reward units."""

    @property
    def terminateds(self) -> npt.NDArray[np.bool_]:
        """`[B]` bool, True where nothing can be earned any more."""

    @property
    def truncateds(self) -> npt.NDArray[np.bool_]:
        """`[B]` bool, True where the episode was cut although it could go on."""


class Rollout(Protocol):
    """Result of `SearchModel.rollout_batch`; states and obs are the last ones."""

    @property
    def obs(self) -> Any:
        """`[B, *obs]` after the last step that was taken."""

    @property
    def rewards(self) -> npt.NDArray[np.float64]:
        """`[B, H]` float64, zero after an ending."""

    @property
    def terminateds(self) -> npt.NDArray[np.bool_]:
        """`[B]` bool, as in `Transitions`."""

    @property
    def steps(self) -> npt.NDArray[np.int32]:
        """`[B]` int32, how many of the H steps were taken."""


class SearchModel(Protocol):
    """An env that steps any state it is given.

    Row i of a result depends on row i of the inputs alone. States hold the
    env's random generator, so (state, action) decides what happens. Returned
    arrays belong to the caller.
    """

    @property
    def action_space(self) -> Any:
        """A gymnasium space; planners for discrete actions want `Discrete`."""

    def step_batch(self, actions: npt.NDArray[Any], states: States) -> Transitions:
        """Restore `states` `[B, S]` and play `actions` `[B]`, one step each."""

    def rollout_batch(self, actions: npt.NDArray[Any], states: States) -> Rollout:
        """Restore each row once and play `actions` `[B, H]` until an ending."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What a plan cost. Budgets add, so an episode's is the sum of its plans'.

    Attributes:
        model_steps: control steps that the model took.
        expansions: nodes added to the tree.
        evaluator_rows: observations given to the evaluator.
        restores: states that the model restored.
        seconds: wall time; a plan made in a batch has an equal share of it.
    """

    model_steps: int = 0
    expansions: int = 0
    evaluator_rows: int = 0
    restores: int = 0
    seconds: float = 0.0

    def __add__(self, other: Budget) -> Budget:
        """Return the cost of both."""
        return Budget(
            self.model_steps + other.model_steps,
            self.expansions + other.expansions,
            self.evaluator_rows + other.evaluator_rows,
            self.restores + other.restores,
            self.seconds + other.seconds,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A planner's answer for one state.

    Attributes:
        action: what to play, an element of the env's action space.
        visits: `[A]` int64, simulations that began with each action, entry i
            being action `action_space.start + i`; they include those kept
            from the previous move.
        q: `[A]` float64, mean return of each action, NaN where never tried.
        value: mean return over the simulations from this state.
        budget: what this plan cost.
        full: True if the tree ran out of room, so that fewer simulations than
            asked for were run.
    """

    action: int
    visits: npt.NDArray[np.int64]
    q: npt.NDArray[np.float64]
    value: float
    budget: Budget
    full: bool = False


class Planner(ABC):
    """Chooses an action for a state by trying actions in a model."""

    @abstractmethod
    def plan_batch(
        self, env: SearchModel, states: States, *, rngs: Sequence[Rng], obs: Any = None
    ) -> list[Plan]:
        """Plan for B states at once.

        Plan i depends on state i, obs i and generator i alone.

        Args:
            env: the model; its own current episode is not looked at.
            states: `[B, S]` uint8, none of them ended.
            rngs: B generators, one per state; they are advanced.
            obs: `[B, *obs]` of the states; only needed with an evaluator.

        Returns:
            B plans, in the order of `states`.
        """

    @abstractmethod
    def reset(self) -> None:
        """Forget everything kept between moves; called between episodes."""

    def plan(self, env: SearchModel, state: States, *, rng: Rng | int, obs: Any = None) -> Plan:
        """Plan for one state `[S]`: row 0 of `plan_batch` of that row.

        Args:
            env: the model.
            state: `[S]` uint8.
            rng: a generator, which is advanced, or the seed of one.
            obs: `[*obs]` of the state; only needed with an evaluator.
        """
        state = np.asarray(state)
        if state.ndim != 1:
            raise ValueError(
                f"{type(self).__name__}.plan: state must be one row [S]; got shape "
                f"{state.shape}. For several states use plan_batch."
            )
        rows = None if obs is None else np.asarray(obs)[None]
        return self.plan_batch(env, state[None], rngs=[np.random.default_rng(rng)], obs=rows)[0]


def discrete_actions(space: Any, planner: str) -> tuple[int, int]:
    """Return how many actions a `Discrete` space has, and its first one.

    Judged by its attributes: naming the class would import gymnasium here.
    """
    if not (hasattr(space, "n") and hasattr(space, "start")):
        raise ValueError(
            f"{planner}: plans over discrete actions; got the action space {space}. "
            f"Use a planner for continuous actions, or wrap the env so that its "
            f"actions are Discrete."
        )
    return int(space.n), int(space.start)


def check_rows(planner: str, states: npt.NDArray[Any], rngs: Sequence[Rng]) -> None:
    """Refuse states that are not `[B, S]` uint8 with one generator per row."""
    if states.ndim != 2 or states.dtype != np.uint8 or 0 in states.shape:
        raise ValueError(
            f"{planner}: states must be [B, S] uint8, B and S at least 1; got shape "
            f"{states.shape} {states.dtype}. Take them from get_state, reset or step."
        )
    if len(rngs) != len(states):
        raise ValueError(
            f"{planner}: needs one generator per state, {len(states)}; got {len(rngs)}. "
            f"np.random.default_rng(seed).spawn({len(states)}) makes that many."
        )


def at_least(where: str, value: int, least: int) -> int:
    """Return `value` as an int, or say that it is not an integer >= `least`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{where} must be an integer >= {least}; got {value!r}.")
    return int(value)


def finite_between(where: str, value: float, low: float, high: float) -> float:
    """Return `value` as a float, or say that it is not in [low, high] (NaN is not)."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and low <= number <= high):
        raise ValueError(f"{where} must be a finite number in [{low}, {high}]; got {value!r}.")
    return number

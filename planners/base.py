"""What every planner promises, and what it asks of the env it plans over.

Planners see an env only through `SearchModel`: restore these rows, play these
actions. Nothing here knows how, or in how many processes, that is done.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from plangym_ext.errors import InvalidOption
from plangym_ext.planners.plans import Plan

#: More simulations than any search makes.
UNBOUNDED = 2**31 - 1

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

    @property
    def infos(self) -> Any:
        """Mapping of names to `[B, ...]` columns; only `action_mask` is looked at."""


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


@dataclass(eq=False)
class Planner(ABC):
    """Chooses an action for a state by trying actions in a model.

    Planners are dataclasses: a field is an option, described under `Args` of the
    class that adds it, and `planners.options` lists them. A plan ends with the
    first limit that is reached. Limits are looked at between waves; only
    `max_seconds` makes a plan depend on anything but its arguments.

    Args:
        num_simulations: most things to try per plan: leaves of a tree, or
            sequences of actions. None leaves it to the other limits; without
            any, the planner's own default holds.
        discount: gamma in [0, 1], per step.
        max_model_steps: most control steps of the model per plan; never exceeded.
        max_seconds: wall time after which no wave is begun; at least one is run.
    """

    num_simulations: int | None = None
    _: KW_ONLY
    discount: float = 0.99
    max_model_steps: int | None = None
    max_seconds: float | None = None

    #: What `num_simulations` is if nothing limits a plan.
    default_simulations: ClassVar[int] = 64

    def __post_init__(self) -> None:
        """Check the options; derived planners check theirs after these."""
        self.discount = finite_between(self._option("discount"), self.discount, 0.0, 1.0)
        if self.max_model_steps is not None:
            where = self._option("max_model_steps")
            self.max_model_steps = at_least(where, self.max_model_steps, 1)
        if self.max_seconds is not None:
            where = self._option("max_seconds")
            self.max_seconds = finite_between(where, self.max_seconds, 1e-9, math.inf)
        if self.num_simulations is not None:
            where = self._option("num_simulations")
            self.num_simulations = at_least(where, self.num_simulations, 1)
        elif self.max_model_steps is None and self.max_seconds is None:
            self.num_simulations = self.default_simulations

    def _option(self, name: str) -> str:
        """How messages call an option of this planner."""
        return f"{type(self).__name__}: {name}"

    @property
    def most_simulations(self) -> int:
        """What bounds the simulations of a plan; `UNBOUNDED` if only time does.

        Every simulation but those that end in a known ending costs a step, so as
        many of them as there are steps are enough.
        """
        if self.num_simulations is not None:
            return self.num_simulations
        return UNBOUNDED if self.max_model_steps is None else self.max_model_steps

    @abstractmethod
    def plan_batch(
        self,
        env: SearchModel,
        states: States,
        *,
        rngs: Sequence[Rng],
        obs: Any = None,
        legal: npt.NDArray[np.bool_] | None = None,
    ) -> list[Plan]:
        """Plan for B states at once.

        Plan i depends on row i of the arguments and on generator i alone.

        Args:
            env: the model; its own current episode is not looked at.
            states: `[B, S]` uint8, none of them ended.
            rngs: B generators, one per state; they are advanced.
            obs: `[B, *obs]` of the states; only needed with an evaluator.
            legal: `[B, A]` bool, the actions that may be played in the states;
                None: all. Of later states, `infos["action_mask"]` says so.

        Returns:
            B plans, in the order of `states`.
        """

    def reset(self) -> None:  # noqa: B027 - most planners keep nothing
        """Forget everything kept between moves; called between episodes."""

    def keep_rows(self, rows: npt.NDArray[np.intp]) -> None:  # noqa: B027
        """Forget all rows of the last `plan_batch` but these, which become 0, 1, ...

        For episodes played side by side, when some of them have ended.

        Args:
            rows: `[n]` ascending indices into the last batch.
        """

    def plan(
        self,
        env: SearchModel,
        state: States,
        *,
        rng: Rng | int,
        obs: Any = None,
        legal: npt.NDArray[np.bool_] | None = None,
    ) -> Plan:
        """Plan for one state `[S]`: row 0 of `plan_batch` of that row.

        Args:
            env: the model.
            state: `[S]` uint8.
            rng: a generator, which is advanced, or the seed of one.
            obs: `[*obs]` of the state; only needed with an evaluator.
            legal: `[A]` bool, the actions that may be played; None: all.
        """
        state = np.asarray(state)
        if state.ndim != 1:
            raise ValueError(
                f"{type(self).__name__}.plan: state must be one row [S]; got shape "
                f"{state.shape}. For several states use plan_batch."
            )
        rows = None if obs is None else np.asarray(obs)[None]
        masks = None if legal is None else np.asarray(legal)[None]
        generators = [np.random.default_rng(rng)]
        return self.plan_batch(env, state[None], rngs=generators, obs=rows, legal=masks)[0]


class Clock:
    """Measures one `plan_batch`.

    Args:
        max_seconds: when `over` becomes true; None: never.
    """

    def __init__(self, max_seconds: float | None) -> None:
        self._started = time.perf_counter()
        self._most = math.inf if max_seconds is None else max_seconds

    @property
    def limited(self) -> bool:
        """Whether the time can be up."""
        return self._most < math.inf

    @property
    def seconds(self) -> float:
        """Wall time since the clock was made."""
        return time.perf_counter() - self._started

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return self.seconds >= self._most


def discrete_actions(space: Any, planner: str) -> tuple[int, int]:
    """Return how many actions a `Discrete` space has, and its first one.

    Judged by its attributes: naming the class would import gymnasium here.
    """
    if not (hasattr(space, "n") and hasattr(space, "start")):
        raise InvalidOption(
            f"{planner}: plans over discrete actions; got the action space {space}. "
            f"Use a planner for continuous actions, or wrap the env so that its "
            f"actions are Discrete."
        )
    return int(space.n), int(space.start)


def has_masks(infos: Any) -> bool:
    """Whether the infos of a batch say which actions its states allow."""
    return "action_mask" in infos.keys()  # noqa: SIM118 - iterating gives rows


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
        # A row whose infos are of another kind has zeros here.
        masks[i] = np.asarray(infos[int(i)].get("action_mask", True), np.bool_)
    return masks


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


def check_obs(planner: str, obs: Any, count: int) -> None:
    """Refuse to evaluate states whose observations did not come along."""
    if obs is None or len(obs) != count:
        raise ValueError(
            f"{planner}: an evaluator needs obs, one per state, {count}; got "
            f"{'none' if obs is None else len(obs)}. Pass what reset or step "
            f"returned beside the state."
        )


def at_least(where: str, value: Any, least: int) -> int:
    """Return `value` as an int, or say that it is not an integer >= `least`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InvalidOption(f"{where} must be an integer >= {least}; got {value!r}.")
    return int(value)


def finite_between(where: str, value: float, low: float, high: float) -> float:
    """Return `value` as a float, or say that it is not in [low, high] (NaN is not)."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and low <= number <= high):
        raise InvalidOption(f"{where} must be a finite number in [{low}, {high}]; got {value!r}.")
    return number

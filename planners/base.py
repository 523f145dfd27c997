"""DiscretePlanner: base class of planners over discrete actions."""

from __future__ import annotations

import dataclasses
import functools
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import mapped
from plangym_ext.core.options import CheckedOptions, Function, Range, Share
from plangym_ext.errors import InvalidAnswer, InvalidOption, UnknownName
from plangym_ext.planners.action_spaces import NUMBERS, KeptModel
from plangym_ext.planners.adapted_model import Proposal
from plangym_ext.planners.clock import Clock
from plangym_ext.planners.kept import Kept, NothingKept
from plangym_ext.planners.plans import Budget, Plan
from plangym_ext.planners.players import check_players
from plangym_ext.planners.request import PlanRequest
from plangym_ext.planners.simulator import Rng, SearchModel, States, stacked_obs
from plangym_ext.planners.watched import SearchCallback

#: More simulations than any search makes.
UNBOUNDED = 2**31 - 1
#: Most simulations and model steps that may be asked for: trees count in 32 bits.
_MOST = 10**9
_Limit = Annotated[
    int | None, Range(1, _MOST, advice="Leave it out where max_seconds is to be the only limit.")
]


@dataclass(eq=False)
class Planner(CheckedOptions, ABC):
    """Abstract base of planners: a planner chooses an action by trying actions in a model.

    Planners are dataclasses: a field is an option, described under `Args` of the
    class that adds it, and `planners.options` lists them. A plan ends with the
    first limit that is reached. Limits are looked at between waves; only
    `max_seconds` makes a plan depend on anything but its arguments.

    Args:
        num_simulations: maximum number of tries per plan: leaves of a tree, or
            sequences of actions. None: only the other limits hold; without
            any, the planner's own default. That default also holds with only
            `max_seconds` if all tries run side by side, as particles and walkers do.
        discount: gamma in [0, 1], per step.
        max_model_steps: maximum of control steps of the model per plan; never exceeded.
        max_seconds: wall time after which no wave begins; at least one runs. Compile
            time does not count, see `Budget.compile_seconds`.
        callback: a `SearchCallback`, which sees all passes and model steps. The plan is the
            same, but no compiled code runs.
    """

    num_simulations: _Limit = None
    _: KW_ONLY
    discount: Share = 0.99
    max_model_steps: _Limit = None
    max_seconds: Annotated[float | None, Range(1e-9)] = None
    callback: SearchCallback | None = None

    _unknown = UnknownName

    #: Whether what a network says of actions is for the option `rollout_policy`; other planners
    #: have it as the prior of their evaluator.
    plays_policy: ClassVar[bool] = False
    #: What the actions of any space are for this planner: "numbers" or "vectors"; "": themselves.
    plans_over: ClassVar[str] = ""
    #: Options that add chance to what is played, none of it where they are 0.
    noise_options: ClassVar[tuple[str, ...]] = ()
    #: What `num_simulations` is if nothing limits a plan.
    default_simulations: ClassVar[int] = 64
    #: The model of numbers or vectors, of the env that was planned in last.
    _joint = KeptModel()
    #: `_memory_options` of the last plan.
    _made_for = None
    #: Options that follow a schedule: name -> its value after so many updates of a learner.
    schedules: ClassVar[Mapping[str, Callable[[int], float]]] = {}
    _updates = 0

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Return a planner that has met no model yet."""
        planner = super().__new__(cls, *args, **options)
        # Not of `__post_init__`, which is called again after an option was assigned.
        planner._joint = KeptModel()
        return planner

    def __post_init__(self) -> None:
        """Check the options; derived planners check after this what depends on several."""
        super().__post_init__()
        if not isinstance(self.callback, SearchCallback | None):
            called = self._option("callback")
            raise InvalidOption(
                f"{called} must be a SearchCallback or None; got {self.callback!r}."
            )
        self._kept: Kept = NothingKept()
        self._planned_with: tuple[Any, ...] | None = None
        #: What looks at the spaces of those that are asked about observations.
        self._space_checks: list[Callable[[Any], None]] = []
        limits = self.num_simulations, self.max_model_steps, self.max_seconds
        if limits == (None, None, None):
            self.num_simulations = self.default_simulations

    @property
    def updates(self) -> int:
        """Number of updates of the learner, which sets it: the time of `schedules`."""
        return self._updates

    @updates.setter
    def updates(self, count: int) -> None:
        self._updates = count
        for name, scheduled in self.schedules.items():
            # Only what differs: an assigned option has all of them checked again.
            if (value := scheduled(count)) != getattr(self, name):
                setattr(self, name, value)

    # Checking options -----------------------------------------------------------

    def _check_pays(self, cost: int, what: str) -> None:
        """Refuse a `max_model_steps` that does not pay for one simulation of `cost` steps."""
        if self.max_model_steps is not None and self.max_model_steps < cost:
            raise InvalidOption(
                f"{self._option('max_model_steps')} must pay for one {what} of {cost} steps; "
                f"got {self.max_model_steps}. Raise it, or shorten the {what}."
            )

    @property
    def two_players(self) -> bool:
        """Whether the planner plans for both players of a two-player env."""
        return False

    @property
    def for_two_players(self) -> str:
        """Requirement for two-player envs, as a sentence for messages."""
        return "MCTS and STS plan for two whose gains are each other's losses."

    # Limits ---------------------------------------------------------------------

    @property
    def most_simulations(self) -> int:
        """Upper bound on the simulations of a plan; `UNBOUNDED` if only time limits it.

        Every simulation costs a step, except those that end in a known ending; so the number of
        steps bounds the number of simulations.
        """
        if self.num_simulations is not None:
            return self.num_simulations
        return UNBOUNDED if self.max_model_steps is None else self.max_model_steps

    def _affordable(self, cost: int, before: int = 0) -> int | None:
        """Return how many simulations the limits allow; None: time alone limits."""
        if self.max_model_steps is None:
            return self.num_simulations
        paid = (self.max_model_steps - before) // cost
        return paid if self.num_simulations is None else min(self.num_simulations, paid)

    # Planning -------------------------------------------------------------------

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

        Plan i depends only on row i of the arguments and on generator i.

        Args:
            env: the model; its own current episode is not looked at.
            states: `[B, S]` uint8, none of them ended.
            rngs: B generators, one per state; they are advanced.
            obs: `[B, *obs]` of the states, nested as the observation space; only needed
                with an evaluator, and by planners that look for what is new.
            legal: `[B, A]` bool, the actions that may be played in the states;
                None: all. Of later states, `infos["action_mask"]` says so.

        Returns:
            B plans, in the order of `states`.

        Raises:
            InvalidOption: the options do not fit the env.
            InvalidAnswer: an evaluator or policy returned what cannot be used.
            NoLegalAction: a state allows nothing.
            WrongKind: the env has two players, and this planner plans for one.
        """
        if self.callback is not None or (self.plans_over and env is not self._joint.plain):
            joint = self._joint.of(env, self)
            if joint is not None:
                return joint.planned(self, states, rngs, obs, legal)
        self._check(env)
        clock = getattr(env, "plan_clock", Clock)(self.max_seconds)
        masks = None if legal is None else np.asarray(legal, np.bool_)
        seen = None if obs is None else mapped(np.asarray, obs)
        name = type(self).__name__
        request = PlanRequest(name, env, np.asarray(states), rngs, seen, masks, clock)
        try:
            return _with_compiling(self._plan_batch(request), clock.compile_seconds)
        except InvalidAnswer as error:
            # The check of the evaluator's answer does not know the planner's name.
            raise InvalidAnswer(f"{name}: {error}") from error
        except MemoryError as error:
            raise _no_memory(request, error) from error

    def _check(self, env: SearchModel) -> None:
        """Refuse an env that this planner is not for, and options that cannot be."""
        check_players(self, env)
        self._take_options()
        space = getattr(env, "observation_space", None) if self._space_checks else None
        if space is not None:
            for check in self._space_checks:
                check(space)
        self._check_comparison(env)

    def _check_comparison(self, env: SearchModel) -> None:
        """Refuse to look for equal states where equal ones differ in their bytes."""
        why = getattr(env, "incomparable", "")
        if not why:
            return
        if getattr(self, "keep_tree", False):
            raise InvalidOption(
                f"{type(self).__name__}: keep_tree compares the env's next state with those in the "
                f"tree, and they cannot be compared: {why}. Set keep_tree=False."
            )
        if getattr(self, "state_key", "") == "state":
            raise InvalidOption(
                f"{type(self).__name__}: state_key 'state' compares the bytes of states, and they "
                f"cannot be compared: {why}. Set state_key='obs' if observations identify states."
            )

    def _take_options(self) -> None:
        """Check the options again if one may have been assigned since that was done."""
        now = _values(self)
        before = self._planned_with
        # By identity: of arrays and functions there may be no other equality. In C, as a short
        # plan takes no longer than thirty comparisons of Python's.
        if before is None or not all(map(operator.is_, now, before)):
            kept, made_for = self._kept, self._made_for
            self.__post_init__()
            self._made_for = self._memory_options()
            # What is kept between moves was made for other options, as a rule.
            if made_for is not None and made_for == self._made_for:
                self._kept = kept
            now = _values(self)
            names = "evaluator", "rollout_policy", "policy"
            asked: list[Any] = [getattr(self, name, None) for name in names]
            self._space_checks = [one.check_space for one in asked if hasattr(one, "check_space")]
        self._planned_with = now

    def _memory_options(self) -> tuple[Any, ...] | None:
        """Return the options that what is kept is made for; None: all of them."""
        return None

    @abstractmethod
    def _plan_batch(self, request: PlanRequest) -> list[Plan]:
        """Make the B plans that are asked for; see `plan_batch`."""

    def reset(self) -> None:
        """Drop everything kept between moves; called between episodes."""
        self._kept.clear()

    def keep_rows(self, rows: npt.NDArray[np.intp]) -> None:
        """Keep only these rows of the last `plan_batch`, renumbered 0, 1, ...

        For episodes played side by side, when some of them have ended.

        Args:
            rows: `[n]` ascending indices into the last batch.
        """
        self._kept.keep(rows)

    def forget_rows(self, rows: npt.NDArray[np.intp]) -> None:
        """Drop the kept search of some rows of the last `plan_batch`; other rows keep their place.

        For episodes played side by side, when some have ended and others begin there.

        Args:
            rows: `[n]` indices into the last batch.
        """
        self._kept.forget(rows)

    def cut_wrong(self, env: Any, row: int, state: States, action: Any, came: Any) -> int:  # noqa: ARG002
        """Drop the kept search of a row whose step the model predicted wrongly; here all of it.

        Args:
            env: the model.
            row: of the last `plan_batch`.
            state: `[S]` where the action was played.
            action: of the env's action space.
            came: the state `[S]` and the reward that came about; NaN: it is not known.

        Returns:
            How many nodes of a tree that were.
        """
        self._kept.forget(np.array([row]))
        return 0

    def take_rewards(self, rewards: npt.NDArray[np.float64]) -> None:
        """Receive the rewards of the last `plan_batch`'s actions; searches ignore them.

        Args:
            rewards: `[B]`, before `keep_rows` and `forget_rows`.
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
            obs: `[*obs]` of the state; see `plan_batch`.
            legal: `[A]` bool, the actions that may be played; None: all.
        """
        state = np.asarray(state)
        if state.ndim != 1:
            raise InvalidOption(
                f"{type(self).__name__}.plan: state must be one row [S]; got shape "
                f"{state.shape}. For several states use plan_batch."
            )
        rows = None if obs is None else stacked_obs(env, [obs])
        masks = None if legal is None else np.asarray(legal)[None]
        generators = [np.random.default_rng(rng)]
        return self.plan_batch(env, state[None], rngs=generators, obs=rows, legal=masks)[0]


def as_planner(player: Any) -> Any:
    """Return a planner unchanged, or the planner that plays an agent."""
    make = getattr(player, "as_planner", None)
    return player if make is None or isinstance(player, type) else make()


@functools.cache
def _reader(cls: Any) -> Callable[[Planner], tuple[Any, ...]]:
    # Every planner has more options than one, for which no tuple would be returned.
    return operator.attrgetter(*(field.name for field in dataclasses.fields(cls)))


def _values(planner: Planner) -> tuple[Any, ...]:
    """Return the values of all options; looked up at every plan, so without `dataclasses`."""
    return _reader(type(planner))(planner)


def _no_memory(request: PlanRequest, error: MemoryError) -> InvalidOption:
    # Arrays grow with states, simulations and actions: what is asked for at once.
    return InvalidOption(
        f"{request.planner}: there is no memory for this plan of {request.batch} states in "
        f"{getattr(request.env, 'action_space', request.env)}: {error}. Ask for fewer "
        f"simulations, or for fewer states at once."
    )


def _with_compiling(plans: list[Plan], seconds: float) -> list[Plan]:
    """Return the plans of a batch with their shares of the time spent on compiling."""
    if seconds == 0.0:
        return plans
    share = Budget(compile_seconds=seconds / len(plans))
    return [dataclasses.replace(plan, budget=plan.budget + share) for plan in plans]


@dataclass(eq=False, kw_only=True)
class DiscretePlanner(Planner):
    """Abstract base: plans over numbered actions, which stand for actions of any space.

    Args:
        num_candidates: actions that are drawn in each state where they cannot be numbered: with
            numbers of a Box among their parts, or with more than 4,096 joint actions.
        proposal: `obs [L, *obs] -> [L, W]`, their distribution: for each part in order the weights
            of its choices, or the mean and standard deviation of a number; None: uniform.
    """

    plans_over: ClassVar[str] = NUMBERS

    num_candidates: Annotated[int, Range(1, 4096)] = 16
    proposal: Annotated[Proposal, Function()] | None = None

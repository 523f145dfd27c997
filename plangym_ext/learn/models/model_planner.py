"""ModelPlanner: searches in a learned model for a real env, in a MixedModel of both."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from plangym_ext.core.options import Range
from plangym_ext.core.typed_arguments import checking_arguments
from plangym_ext.errors import InvalidOption, StateError, WrongKind
from plangym_ext.learn.evaluator import NetworkEvaluator
from plangym_ext.learn.models.ensemble import EnsembleModel, EnsembleNetwork
from plangym_ext.learn.models.latent import LatentModel, LatentNetwork, OfLatents
from plangym_ext.learn.models.model_env import ModelEnv
from plangym_ext.planners.base import Planner
from plangym_ext.planners.plans import Budget, Plan
from plangym_ext.planners.players import check_turns, in_turns, num_players, player_swaps
from plangym_ext.planners.request import PlanRequest

Bytes = npt.NDArray[np.uint8]


class Stepped(NamedTuple):
    """N rows after steps, as of a `SearchModel`."""

    states: Bytes
    obs: Any
    rewards: npt.NDArray[np.float64]
    terminateds: npt.NDArray[np.bool_]
    truncateds: npt.NDArray[np.bool_]
    infos: Any
    steps: npt.NDArray[np.int32]


@final
class MixedModel:
    """A `SearchModel` that steps the true env for the first `true_steps` steps, then the model.

    A state is a byte, the true steps that are left, and a state of env or model, filled up with
    zeros. The last true step leads to where the model begins at its observation. Observations are
    the model's. Masks of the env are not passed on.

    Args:
        env: with exact states, all equally wide.
        model: of it.
        true_steps: 1 to 255.
    """

    def __init__(self, env: Any, model: ModelEnv, true_steps: int) -> None:
        self.env, self.model, self._true_steps = env, model, true_steps
        self.action_space: Any = model.action_space
        self.observation_space: Any = model.observation_space
        self.metadata = model.metadata

    def states_of(self, states: Bytes) -> Bytes:
        """Return the rows `[B, 1 + S]` at which states `[B, S]` of the env begin."""
        return self._rows(states, np.full(len(states), self._true_steps, np.uint8))

    def _rows(self, states: Bytes, left: Bytes) -> Bytes:
        width = max(self.env.state_width, self.model.state_width)
        if states.shape[1] > width:
            raise StateError(
                f"MixedModel: states of {self.env} must be {width} bytes wide; got "
                f"{states.shape[1]}. Plan with true_steps=0 in an env whose states grow."
            )
        rows = np.zeros((len(states), 1 + width), np.uint8)
        rows[:, 0], rows[:, 1 : 1 + states.shape[1]] = left, states
        return rows

    def step_batch(self, actions: Any, states: Bytes) -> Stepped:
        """Play actions `[B, *act]`, one in each row; see `SearchModel.step_batch`."""
        found = self.rollout_batch(np.asarray(actions)[:, None], states)
        return found._replace(rewards=found.rewards[:, 0])

    def rollout_batch(self, actions: Any, states: Bytes) -> Stepped:
        """Play actions `[B, H, *act]` until an ending; see `SearchModel.rollout_batch`."""
        count, horizon = np.shape(actions)[:2]
        space, rows = self.observation_space, np.array(states)
        seen = np.zeros((count, *space.shape), space.dtype)
        rewards, steps = np.zeros((count, horizon)), np.zeros(count, np.int32)
        over, cut = np.zeros((2, count), np.bool_)
        for h in range(horizon):
            going, true = ~over & ~cut, rows[:, 0] > 0
            steps += going
            for some in (np.flatnonzero(going & true), np.flatnonzero(going & ~true)):
                if len(some):
                    found = self._stepped(actions[some, h], rows[some])
                    rows[some], seen[some], rewards[some, h], over[some], cut[some] = found
        infos = in_turns(count) if num_players(self) == 2 else {}
        return Stepped(rows, seen, rewards, over, cut, infos, steps)

    def _stepped(self, actions: Any, rows: Bytes) -> Any:
        """Step rows of one kind; return rows, observations, rewards and endings."""
        true = rows[0, 0] > 0
        own = self.env if true else self.model
        out = own.step_batch(actions, states=rows[:, 1 : 1 + own.state_width].copy())
        told: Any = out.rewards, out.terminateds, out.truncateds
        if not true:
            return self._rows(out.states, rows[:, 0]), out.obs, *told
        if num_players(self) == 2:
            ended = out.terminateds | out.truncateds
            check_turns(f"MixedModel: {self.env}", player_swaps(out.infos, ended) | ended)
        begun, left = self.model.states_of(out.obs), rows[:, 0] - 1
        found = self._rows(out.states, left)
        found[left == 0] = self._rows(begun[left == 0], left[left == 0])
        return found, self.model.obs_of(begun), *told


@dataclass(eq=False)
class ModelPlanner(Planner):
    """Plans for a real env from its observations, with steps of a learned model.

    Plans are those of the planner; their model steps are the model's. The limits are the
    planner's own: those of this class mean nothing.

    With `correct` each real step is compared with its prediction: the model returns the real result
    from then on, and branches of a kept tree below a wrong prediction are cut off. `Budget.dropped`
    counts those nodes. A right expectation is one of the same bytes, as a model of numbers hardly
    ever has. `MCTS` goes on with what remains; other planners drop the row's whole tree. All is
    forgotten at `reset`.

    Args:
        planner: that searches; one that asks an evaluator has one of the model's observations.
        model: that it searches in.
        true_steps: how many steps of a search are those of the real env, before the model's.
        correct: for envs without chance. Rewards are those of `take_rewards`, as `play` tells them.

    Raises:
        InvalidOption: `correct` with `true_steps`.

    Source: `EnvModel.correct` of Alpacka.
    """

    num_simulations: int | None = None
    _: KW_ONLY
    planner: Planner
    model: ModelEnv
    true_steps: Annotated[int, Range(0, 255)] = 0
    correct: bool = False

    def __post_init__(self) -> None:
        """Take over the planner's numbers, which others ask for."""
        super().__post_init__()
        self.num_simulations, self.discount = None, self.planner.discount
        self._mixed: MixedModel | None = None
        #: The states and actions of the last plans, and what these have paid.
        self._last: tuple[Any, list[Any], npt.NDArray[np.float64]] | None = None
        if self.correct and self.true_steps:
            raise InvalidOption(
                f"ModelPlanner: true_steps must be 0 with correct, as true steps are no "
                f"predictions; got {self.true_steps}."
            )

    @property
    def two_players(self) -> bool:
        """Whether the model is of two players."""
        return num_players(self.model) == 2

    @property
    def for_two_players(self) -> str:
        return "Make the model of a LatentNetwork whose config has num_players=2."

    def _check(self, env: Any) -> None:
        super()._check(env)
        # Without an env, states are searched again that were played in one.
        if env is not None and self.two_players and num_players(env) != 2:
            raise WrongKind(
                f"ModelPlanner: env must have two players, as the model; got one in {env}. Make "
                f"the network with num_players=1."
            )

    def _plan_batch(self, request: PlanRequest) -> list[Plan]:
        """Search from where the model begins at the observations."""
        self.planner.updates = self.updates
        states = self.model.states_of(request.needed_obs("a learned model"))
        seen = self.model.obs_of(states)
        model: Any = self.model
        dropped = self._corrected(states) if self.correct else [0] * len(states)
        begun = states
        if self.true_steps:
            if self._mixed is None or self._mixed.env is not request.env:
                self._mixed = MixedModel(request.env, self.model, self.true_steps)
            model, begun = self._mixed, self._mixed.states_of(request.states)
        plans = self.planner.plan_batch(
            model, begun, rngs=request.rngs, obs=seen, legal=request.legal
        )
        if not self.correct:
            return plans
        self._last = states, [plan.action for plan in plans], np.full(len(plans), np.nan)
        return [
            dataclasses.replace(plan, budget=plan.budget + Budget(dropped=n))
            for plan, n in zip(plans, dropped, strict=True)
        ]

    def _corrected(self, following: Bytes) -> list[int]:
        """Learn what the last actions have led to; return how many nodes that cost each row."""
        last, self._last = self._last, None
        if last is None or len(last[1]) != len(following):
            return [0] * len(following)
        states, actions, rewards = last
        on = [row for row, action in enumerate(actions) if action is not None]
        played = self.model.layout.action.stack([actions[row] for row in on])
        self.model.correct(states[on], played, following[on], rewards[on])
        dropped = [0] * len(following)
        for row in on:
            told = self.model, row, states[row], actions[row]
            dropped[row] = self.planner.cut_wrong(*told, (following[row], rewards[row]))
        return dropped

    def reset(self) -> None:
        self._last = None
        self.model.forget_corrections()
        self.planner.reset()

    def keep_rows(self, rows: npt.NDArray[np.intp]) -> None:
        if self._last is not None:
            states, actions, rewards = self._last
            self._last = states[rows], [actions[row] for row in rows], rewards[rows]
        self.planner.keep_rows(rows)

    def forget_rows(self, rows: npt.NDArray[np.intp]) -> None:
        if self._last is not None:
            for row in rows.tolist():
                self._last[1][row] = None
        self.planner.forget_rows(rows)

    def take_rewards(self, rewards: npt.NDArray[np.float64]) -> None:
        """Pass rewards on; see `Planner.take_rewards`."""
        if self._last is not None:
            self._last = *self._last[:2], np.array(rewards, np.float64)
        self.planner.take_rewards(rewards)


@checking_arguments
def model_planner(
    network: LatentNetwork | EnsembleNetwork,
    make: Callable[[Any], Planner],
    *,
    device: str = "cpu",
    **options: Any,
) -> ModelPlanner:
    """Return a planner that searches in a network, and shares its weights.

    Args:
        network: of the model.
        make: returns the planner that searches, given the evaluator of its leaves; None, where
            the network rates none.
        device: of the network.
        **options: of `ModelPlanner`.
    """
    if isinstance(network, EnsembleNetwork):
        model: ModelEnv = EnsembleModel(network, device=device)
        return ModelPlanner(planner=make(None), model=model, **options)
    evaluator = NetworkEvaluator(OfLatents(network), device=device)
    model = LatentModel(network, device=device)
    return ModelPlanner(planner=make(evaluator), model=model, **options)

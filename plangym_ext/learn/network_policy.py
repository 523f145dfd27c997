"""Acting by a network alone, without search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.errors import InvalidOption, suggestion
from plangym_ext.learn.distributions.base import Distribution
from plangym_ext.learn.distributions.categorical import Categorical
from plangym_ext.learn.distributions.noise import GeneratorNoise
from plangym_ext.learn.evaluator import NetworkEvaluator
from plangym_ext.learn.networks.network import NetworkOutput
from plangym_ext.planners.base import Planner
from plangym_ext.planners.model import Rng
from plangym_ext.planners.plans import Budget, Plan
from plangym_ext.planners.request import PlanRequest

HEADS = ("auto", "policy", "q")


@dataclass(eq=False)
class NetworkPolicy(Planner):
    """Plays what the network says, as a planner that takes no model steps.

    So `planners.play`, and whatever else plays a search, plays it. The limits that
    planners have mean nothing here.

    Args:
        evaluator: asks the network, and counts the calls.
        temperature: 0 plays the most likely action, 1 draws from the policy; others draw
            in proportion to probability**(1 / temperature). Q values are taken for logits.
        epsilon: share of moves that are random among the legal ones, for Discrete actions.
        head: "policy", "q", or "auto": the policy if there is one.
    """

    num_simulations: int | None = None
    _: KW_ONLY
    evaluator: NetworkEvaluator
    temperature: float = 0.0
    epsilon: float = 0.0
    head: str = "auto"

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        self.temperature = self._number("temperature", 0.0, float("inf"))
        self.epsilon = self._number("epsilon", 0.0, 1.0)
        if self.head not in HEADS:
            raise InvalidOption(
                f"{self._option('head')} must be one of {', '.join(HEADS)}; got "
                f"{self.head!r}{suggestion(self.head, HEADS)}."
            )

    def act(
        self,
        obs: Any,
        rngs: Sequence[Rng] | None = None,
        legal: npt.NDArray[np.bool_] | None = None,
    ) -> npt.NDArray[Any]:
        """Return actions `[B, *act]` for observations `[B, *obs]`.

        Args:
            obs: what is seen.
            rngs: B generators; needed with a temperature or an epsilon.
            legal: `[B, A]`, only for Discrete spaces; None: all.

        Raises:
            InvalidOption: chance is asked for without generators, or a head that the
                network does not have.
        """
        return self._actions(
            self._distribution(), self._params(self.evaluator.ask(obs)), rngs, legal
        )

    def _plan_batch(self, request: PlanRequest) -> list[Plan]:
        """Ask the network about B observations; nothing is stepped."""
        out = self.evaluator.ask(request.needed_obs("an evaluator"))
        distribution, params = self._distribution(), self._params(out)
        actions = self._actions(distribution, params, request.rngs, request.legal)
        weights = None
        if isinstance(distribution, Categorical):
            weights = distribution.probabilities(params, request.legal).astype(np.float64)
        values = out.value
        if values is None:
            values = np.full(request.batch, np.nan) if out.q is None else out.q.max(axis=1)
        cost = Budget(evaluator_rows=1, seconds=request.clock.seconds / request.batch)
        return [
            Plan(
                action=actions[b],
                value=float(values[b]),
                budget=cost,
                q=None if out.q is None else out.q[b].astype(np.float64),
                weights=None if weights is None else weights[b],
            )
            for b in range(request.batch)
        ]

    def _distribution(self) -> Distribution:
        """Return what the numbers of the head describe."""
        network: Any = self.evaluator.network
        found: Distribution = network.distribution
        return found

    def _params(self, out: NetworkOutput) -> npt.NDArray[np.float32]:
        """Return the numbers of the head that is played from."""
        there = {"policy": out.policy_logits, "q": out.q}
        head = self.head
        if head == "auto":
            head = "q" if out.policy_logits is None else "policy"
        if there[head] is None:
            raise InvalidOption(
                f"{self._option('head')} {head!r} is not among the network's heads. Name it in "
                f"NetworkConfig(heads=...)."
            )
        params: npt.NDArray[np.float32] = there[head]
        return params

    def _actions(
        self,
        distribution: Distribution,
        params: npt.NDArray[np.float32],
        rngs: Sequence[Rng] | None,
        legal: npt.NDArray[np.bool_] | None,
    ) -> npt.NDArray[Any]:
        """Choose an action per row."""
        if self.temperature == 0.0 and self.epsilon == 0.0:
            return distribution.greedy(params, legal)
        if rngs is None or len(rngs) != len(params):
            raise InvalidOption(
                f"{type(self).__name__}: with a temperature or an epsilon it needs one generator "
                f"per observation, {len(params)}; got {'none' if rngs is None else len(rngs)}."
            )
        if self.temperature == 0.0:
            actions = distribution.greedy(params, legal)
        else:
            actions = distribution.sample(params, GeneratorNoise(rngs), legal, self.temperature)
        if self.epsilon > 0.0:
            # Drawn in every row, so that no row affects the draws of another.
            anything = distribution.sample(0 * params, GeneratorNoise(rngs), legal)
            dice = np.array([rng.random() < self.epsilon for rng in rngs])
            actions[dice] = anything[dice]
        return actions

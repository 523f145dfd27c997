"""EvaluatorAgent and NetworkPolicy: acting by an evaluator's network, without search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, final

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import leaves, num_rows
from plangym_ext.core.options import Share, Weight
from plangym_ext.errors import InvalidOption, suggestion
from plangym_ext.learn.agents.agent import Acted, Agent
from plangym_ext.learn.agents.agent_planner import AgentPlanner
from plangym_ext.learn.agents.inputs import Inputs, needed_noise
from plangym_ext.learn.agents.network_agent import refuse_infinite
from plangym_ext.learn.distributions.base import Distribution, masked
from plangym_ext.learn.distributions.categorical import Categorical
from plangym_ext.learn.distributions.noise import GeneratorNoise
from plangym_ext.learn.evaluator import NetworkEvaluator
from plangym_ext.learn.networks.network import NetworkOutput
from plangym_ext.planners.simulator import Rng

HEADS = ("auto", "policy", "q")


@final
class EvaluatorAgent(Agent):
    """Acts by the network of a `NetworkEvaluator`, in the same way in every mode.

    The infos of a step are "value" `[B]`, "q" `[B, A]` and "probabilities" `[B, A]`, float32, as
    far as the network has such heads.

    Args:
        evaluator: asks the network, and counts the calls.
        temperature: 0 plays the most likely action, 1 draws from the policy; others draw
            in proportion to probability**(1 / temperature). Q values are taken for logits.
        epsilon: share of moves that are random among the legal ones.
        head: "policy", "q", or "auto": the policy if there is one.

    Raises:
        InvalidOption: there is no such head; at the first step, the network lacks it.
    """

    looks_at = frozenset()  # at the observation alone

    def __init__(
        self,
        evaluator: NetworkEvaluator,
        *,
        temperature: float = 0.0,
        epsilon: float = 0.0,
        head: str = "auto",
    ) -> None:
        if head not in HEADS:
            raise InvalidOption(
                f"{type(self).__name__}: head must be one of {', '.join(HEADS)}; got {head!r}"
                f"{suggestion(head, HEADS)}."
            )
        self.evaluator, self.temperature, self.epsilon = evaluator, temperature, epsilon
        self.head = head

    def step(self, inputs: Inputs, carry: Any) -> Acted:
        out = self.evaluator.ask(inputs.obs)
        distribution = self._distribution()
        params = self._params(out)
        refuse_infinite(params, type(self).__name__, "what the network says")
        if inputs.legal is not None and inputs.legal.shape != params.shape:
            raise InvalidOption(
                f"{type(self).__name__}: the network must have as many actions as the env, "
                f"{inputs.legal.shape[1]}; it has {params.shape[1]}. Make it with the env's "
                f"action_space."
            )
        params = masked(params, inputs.legal)
        info = {"value": out.value, "q": out.q}
        if isinstance(distribution, Categorical):
            info["probabilities"] = distribution.probabilities(params)
        told = {name: rows for name, rows in info.items() if rows is not None}
        return Acted(self._actions(distribution, params, inputs), told, carry)

    def check_spaces(self, observation_space: Any, action_space: Any) -> None:
        """Refuse spaces that the network was not made for.

        Raises:
            InvalidOption: it has another number of actions, or takes no such observations.
        """
        self.evaluator.check_space(observation_space)
        distribution = getattr(self.evaluator.network, "distribution", None)
        mine = getattr(distribution, "num_actions", None)
        theirs = getattr(action_space, "n", None)
        if mine is not None and mine != theirs:
            raise InvalidOption(
                f"{type(self).__name__}: the network was made for {mine} actions; the env has "
                f"{action_space}. Make it with the env's action_space."
            )

    def value(self, inputs: Inputs, carry: Any) -> Any:
        """Return `[B]` float32: the value head's, or the best Q value; see `Agent.value`."""
        out = self.evaluator.ask(inputs.obs)
        if out.value is None and out.q is None:
            return super().value(inputs, carry)
        # With Q values only, a state's value is the best of them.
        if out.value is None:
            return masked(out.q, inputs.legal).max(axis=1)
        return out.value

    def _distribution(self) -> Distribution:
        """Return the distribution of the head's outputs."""
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
                f"{type(self).__name__}: head {head!r} is not among the network's heads. Name it "
                f"in NetworkConfig(heads=...)."
            )
        params: npt.NDArray[np.float32] = there[head]
        return params

    def _actions(
        self, distribution: Distribution, params: npt.NDArray[np.float32], inputs: Inputs
    ) -> Any:
        """Choose an action per row."""
        if self.temperature == 0.0 and self.epsilon == 0.0:
            return distribution.greedy(params)
        noise = needed_noise(inputs, type(self).__name__)
        if self.temperature == 0.0:
            actions = distribution.greedy(params)
        else:
            actions = distribution.sample(params, noise, self.temperature)
        if self.epsilon > 0.0:
            # Drawn in every row, so that no row affects the draws of another.
            # Logits of 0 are a uniform policy; the mask comes after, as 0 times minus infinity is
            # no number.
            anything = distribution.sample(masked(0 * params, inputs.legal), noise)
            dice = noise.uniform()[:, 0] < self.epsilon
            for mine, theirs in zip(leaves(actions), leaves(anything), strict=True):
                # In place, as distributions return fresh actions.
                mine[dice] = theirs[dice]
        return actions


@dataclass(eq=False)
class NetworkPolicy(AgentPlanner):
    """`AgentPlanner` of an `EvaluatorAgent`, whose arguments are its options.

    Args:
        evaluator: a network as an evaluator.
        temperature: actions are drawn from the policy sharpened by it; 0 takes the best.
        epsilon: share of actions drawn uniformly.
        head: of the network that decides; "auto" takes the one that it has.
    """

    _: KW_ONLY
    agent: EvaluatorAgent = field(init=False)
    evaluator: NetworkEvaluator
    temperature: Weight = 0.0
    epsilon: Share = 0.0
    head: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.agent = EvaluatorAgent(
            self.evaluator, temperature=self.temperature, epsilon=self.epsilon, head=self.head
        )

    def act(
        self,
        obs: Any,
        rngs: Sequence[Rng] | None = None,
        legal: npt.NDArray[np.bool_] | None = None,
    ) -> Any:
        """Return actions `[B, *act]` for observations `[B, *obs]`.

        Args:
            obs: what is seen.
            rngs: B generators; needed with a temperature or an epsilon.
            legal: `[B, A]`, only for Discrete spaces; None: all.

        Raises:
            InvalidOption: chance is asked for without generators, or a head that the
                network does not have.
        """
        rows = num_rows(obs)
        # Before the network is asked: without a choice to draw no generator is needed.
        if (self.temperature or self.epsilon) and (rngs is None or len(rngs) != rows):
            raise InvalidOption(
                f"{type(self).__name__}: with a temperature or an epsilon it needs one generator "
                f"per observation, {rows}; got {'none' if rngs is None else len(rngs)}."
            )
        noise = None if rngs is None else GeneratorNoise(rngs)
        inputs = Inputs(obs, None, None, np.ones(rows, np.bool_), noise, legal)
        return self.agent.step(inputs, None).action

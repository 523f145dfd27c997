"""Acting by a network alone, without search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import num_rows
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.agents.agent_planner import AgentPlanner
from plangym_ext.learn.agents.evaluator_agent import EvaluatorAgent
from plangym_ext.learn.agents.inputs import Inputs
from plangym_ext.learn.distributions.noise import GeneratorNoise
from plangym_ext.learn.evaluator import NetworkEvaluator
from plangym_ext.planners.simulator import Rng


@dataclass(eq=False)
class NetworkPolicy(AgentPlanner):
    """Plays what the network of an evaluator says: `AgentPlanner` of an `EvaluatorAgent`.

    Args:
        evaluator: asks the network, and counts the calls.
        temperature: 0 plays the most likely action, 1 draws from the policy; others draw
            in proportion to probability**(1 / temperature). Q values are taken for logits.
        epsilon: share of moves that are random among the legal ones.
        head: "policy", "q", or "auto": the policy if there is one.
    """

    _: KW_ONLY
    agent: EvaluatorAgent = field(init=False)
    evaluator: NetworkEvaluator
    temperature: float = 0.0
    epsilon: float = 0.0
    head: str = "auto"

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        self.temperature = self._number("temperature", 0.0, float("inf"))
        self.epsilon = self._number("epsilon", 0.0, 1.0)
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

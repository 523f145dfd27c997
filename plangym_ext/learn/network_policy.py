"""Acting by a network alone, without search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.learn.evaluator import NetworkEvaluator
from plangym_ext.planners.base import Planner, Rng, SearchModel, States
from plangym_ext.planners.plans import Plan


@dataclass(eq=False)
class NetworkPolicy(Planner):
    """Plays what the network says, as a planner that takes no model steps.

    So `planners.play`, `compare` and collectors play it as they play a search. The limits
    that planners have mean nothing here.

    Args:
        evaluator: asks the network; it counts the calls.
        temperature: 0 plays the most likely action, 1 draws from the policy; between
            them and beyond in proportion to probability**(1 / temperature). With a Q
            head it draws from softmax(q / temperature).
        epsilon: share of moves that are random, among the legal ones.
        head: "policy", "q", or "auto": the policy if there is one.
    """

    num_simulations: int | None = None
    _: KW_ONLY
    evaluator: NetworkEvaluator
    temperature: float = 0.0
    epsilon: float = 0.0
    head: str = "auto"

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
        """
        raise NotImplementedError

    def plan_batch(
        self,
        env: SearchModel,
        states: States,
        *,
        rngs: Sequence[Rng],
        obs: Any = None,
        legal: npt.NDArray[np.bool_] | None = None,
    ) -> list[Plan]:
        """Ask the network about B observations; see `Planner.plan_batch`."""
        raise NotImplementedError

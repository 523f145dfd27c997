"""ModelPlanner: planner of a real env that searches in a learned model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.learn.evaluator import NetworkEvaluator
from plangym_ext.learn.models.ensemble_model import EnsembleModel
from plangym_ext.learn.models.ensemble_network import EnsembleNetwork
from plangym_ext.learn.models.latent_model import LatentModel
from plangym_ext.learn.models.latent_network import LatentNetwork, OfLatents
from plangym_ext.learn.models.model_env import ModelEnv
from plangym_ext.planners.base import Planner
from plangym_ext.planners.plans import Plan
from plangym_ext.planners.request import PlanRequest


@dataclass(eq=False)
class ModelPlanner(Planner):
    """Plans for a real env by its observations: the env is never stepped, the model is.

    Plans are those of the planner; their model steps are the model's. The limits are the
    planner's own: those of this class mean nothing.

    Args:
        planner: that searches; one that asks an evaluator has one of the model's observations.
        model: that it searches in.
    """

    num_simulations: int | None = None
    _: KW_ONLY
    planner: Planner
    model: ModelEnv

    def __post_init__(self) -> None:
        """Take over the planner's numbers, which others ask for."""
        super().__post_init__()
        self.num_simulations, self.discount = None, self.planner.discount

    def _plan_batch(self, request: PlanRequest) -> list[Plan]:
        """Search from where the model begins at the observations."""
        states = self.model.states_of(request.needed_obs("a learned model"))
        seen = self.model.obs_of(states)
        return self.planner.plan_batch(
            self.model, states, rngs=request.rngs, obs=seen, legal=request.legal
        )

    def reset(self) -> None:
        """Drop everything kept between moves; see `Planner.reset`."""
        self.planner.reset()

    def keep_rows(self, rows: npt.NDArray[np.intp]) -> None:
        """Keep only these rows; see `Planner.keep_rows`."""
        self.planner.keep_rows(rows)

    def forget_rows(self, rows: npt.NDArray[np.intp]) -> None:
        """Drop the kept search of some rows; see `Planner.forget_rows`."""
        self.planner.forget_rows(rows)

    def take_rewards(self, rewards: npt.NDArray[np.float64]) -> None:
        """Pass rewards on; see `Planner.take_rewards`."""
        self.planner.take_rewards(rewards)


def model_planner(
    network: LatentNetwork | EnsembleNetwork,
    make: Callable[[Any], Planner],
    *,
    device: str = "cpu",
) -> ModelPlanner:
    """Return a planner that searches in a network, and shares its weights.

    Args:
        network: of the model.
        make: returns the planner that searches, given the evaluator of its leaves; None, where
            the network rates none.
        device: of the network.
    """
    if isinstance(network, EnsembleNetwork):
        return ModelPlanner(planner=make(None), model=EnsembleModel(network, device=device))
    evaluator = NetworkEvaluator(OfLatents(network), device=device)
    return ModelPlanner(planner=make(evaluator), model=LatentModel(network, device=device))

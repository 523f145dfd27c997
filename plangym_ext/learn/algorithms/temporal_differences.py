"""TDLearning: n-step temporal-difference targets of a value network."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import rows_of
from plangym_ext.learn.algorithms.plan_config import TDConfig
from plangym_ext.learn.algorithms.plan_learning import Part, PlanLearning
from plangym_ext.learn.networks.quick_forward import of_observations
from plangym_ext.learn.networks.state import check_network_state
from plangym_ext.learn.parallel.group import LearnerGroup
from plangym_ext.learn.records import EpisodeRecord
from plangym_ext.learn.returns.discounted import n_step_rewards
from plangym_ext.learn.schedule import at
from plangym_ext.learn.targets import of_one_side
from plangym_ext.learn.torch_extra import nn, torch


class TDLearning(PlanLearning):
    """Trains the value head on r_t + ... + gamma^n V(s_{t+n}).

    Windows end with the episode: after a termination nothing follows, after a cut the
    value of the last observation does. V is the present network or, with a
    `target_rate` below 1, one that follows it slowly.

    Source: Alpacka's TD trainer.
    """

    config_class: ClassVar[type[TDConfig]] = TDConfig
    config: TDConfig

    def __init__(self, network: nn.Module, config: Any = None, *, seed: int = 0) -> None:
        super().__init__(network, config, seed=seed)
        self.target = network
        rate = self.config.target_rate
        # At 1 the copy would equal the network after every update: it is left out.
        if callable(rate) or rate < 1.0:
            self.target = copy.deepcopy(network).eval().requires_grad_(False)
        self._later = of_observations(self.target)

    def join(self, group: LearnerGroup) -> None:
        """Join a group of data-parallel learners; see `PlanLearning.join`."""
        super().join(group)
        if self.target is not self.network:
            group.share(self.target.state_dict().values())

    def samples(self, record: EpisodeRecord) -> dict[str, npt.NDArray[Any]]:
        """Return `obs`, `next_obs`, and float32 `reward` and `discount` `[T]` of the windows."""
        record, sides = of_one_side(record)
        terminated = np.zeros((record.length, 1), np.bool_)
        # An episode that was cut is none that ended: its last window bootstraps.
        terminated[-1] = record.terminated
        window = n_step_rewards(
            # `[T, 1]`: the function is for `[T, B]`.
            record.rewards[:, None],
            terminated,
            n=self.config.n_steps,
            gamma=self.config.discount,
        )
        # `last` is the last step of each window; what it led to is one further.
        mine, after = sides[:-1], window.last[:, 0] + 1
        return {
            "obs": rows_of(record.observations, slice(None, -1)),
            "reward": (mine * window.reward[:, 0]).astype(np.float32),
            "next_obs": rows_of(record.observations, after),
            # Negative where the other player is to move there.
            "discount": (mine * sides[after] * window.discount[:, 0]).astype(np.float32),
        }

    def update(
        self, batch: Mapping[str, Any], weights: npt.ArrayLike | None = None
    ) -> dict[str, float]:
        """Make one update on a batch, then move the target; see `PlanLearning.update`."""
        # Before the update, which counts itself.
        rate = at(self.config.target_rate, self.updates)
        found = super().update(batch, weights)
        if self.target is not self.network:
            with torch.no_grad():
                theirs = self.target.state_dict()
                for name, mine in self.network.state_dict().items():
                    # Counters of batch normalisation are whole numbers, between which there is
                    # nothing.
                    if mine.is_floating_point():
                        theirs[name].lerp_(mine, rate)
                    else:
                        theirs[name].copy_(mine)
        return found

    def _own_state(self) -> dict[str, Any]:
        if self.target is self.network:
            return super()._own_state()
        return {**super()._own_state(), "target": self.target.state_dict()}

    def _check_own_state(self, theirs: Mapping[str, Any], where: str) -> None:
        super()._check_own_state(theirs, where)
        if self.target is not self.network:
            check_network_state(self.target, theirs["target"], where)

    def _load_own_state(self, theirs: Mapping[str, Any]) -> None:
        super()._load_own_state(theirs)
        if self.target is not self.network:
            self.target.load_state_dict(theirs["target"])

    def _losses(self, batch: Mapping[str, torch.Tensor]) -> dict[str, Part]:
        """Return the squared error in units of the network's `value_scale`."""
        with torch.no_grad():
            # Without a gradient: the value now is drawn to the one later, never the other way
            # round.
            later = self._head("value", self._later(batch["next_obs"]).value)
        # `discount` is gamma^n, and 0 where the window ends with a termination.
        wanted = batch["reward"] + batch["discount"] * later
        scale = getattr(self.network, "value_scale", 1.0)
        error = (self._head("value", self._asked(batch["obs"]).value) - wanted) / scale
        return {"value": Part(1.0, error**2)}
